"""How many sums a function of sets needs."""

from itertools import combinations_with_replacement

import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims._drawn import drawn
from corollary.evidence import Size, claim, control, equal
from corollary.nets import MLP, tanh
from corollary.nets.sets import code, decode, from_power_sums, power_sums


@claim(rows=("E07.06",))
def as_many_sums_as_elements(key, *, elements: Size = 5, sets: Size = 40, networks: Size = 20):
    r"""M continuous sums tell all sets of M numbers apart; fewer sums of smooth functions do not.

    The power sums $\sum_mx_m^k$, $k=1..M$, determine a set of $M$ real numbers continuously (Newton's identities give
    the polynomial with these roots), so that every continuous symmetric function is $\rho(\sum_m\phi(x_m))$ with
    $\phi:\mathbb R\to\mathbb R^M$. With $M-1$ of them it does not work: adding a constant to the polynomial changes the
    numbers, their maximum too, and no power sum below the $M$-th. Nor does it with $M-1$ sums of any other smooth
    $\phi$: where $\phi'(x_1),\dots,\phi'(x_{M-1})$ are independent, moving the maximum a little can be compensated by
    the other $M-1$ numbers (implicit functions), so that the sums stay and the maximum does not. Shown for random
    networks $\phi:\mathbb R\to\mathbb R^2$ and three numbers. (Without smoothness: Wagstaff et al. 2019.)
    """

    def compensated(key):
        """Three numbers, and three others of a larger maximum with the same two sums."""
        net_key, x_key = jax.random.split(key)
        network = drawn(lambda k: MLP((1, 16, 2), tanh, key=k), net_key, gain=3.0)

        def phi(t):
            return network(t[None])

        slope = jax.jacfwd(phi)
        tries = jnp.sort(jax.random.uniform(x_key, (50, 3), minval=-1.0), axis=1)

        def independence(x):
            a, b = slope(x[0]), slope(x[1])
            apart = jnp.min(jnp.diff(x)) > 0.2  # the maximum stays the maximum
            return jnp.abs(a[0] * b[1] - a[1] * b[0]) * apart

        x = tries[jnp.argmax(jax.vmap(independence)(tries))]
        top, total = x[2] + 0.01, jnp.sum(jax.vmap(phi)(x), axis=0)

        def newton(y, _):
            a, b = slope(y[0]), slope(y[1])
            miss = phi(y[0]) + phi(y[1]) + phi(top) - total
            det = a[0] * b[1] - a[1] * b[0]
            return y - jnp.stack([miss[0] * b[1] - miss[1] * b[0], a[0] * miss[1] - a[1] * miss[0]]) / det, None

        y, _ = jax.lax.scan(newton, x[:2], None, length=10)
        other = jnp.append(y, top)
        return total, jnp.sum(jax.vmap(phi)(other), axis=0), jnp.max(x), jnp.max(other)

    @jax.jit
    def measure(key):
        x_key, net_key = jax.random.split(key)
        # gaps of 1/M at least: roots that are close lose digits
        steps = jnp.arange(elements) + jax.random.uniform(x_key, (sets, elements), minval=0.25, maxval=0.75)
        x = 2 * steps / elements - 1
        sums = jax.vmap(lambda s: power_sums(s, elements))(x)
        back = jax.lax.map(from_power_sums, sums)
        # the constant of the polynomial is the M-th sum up to a factor: move it and keep the others
        other = jax.lax.map(from_power_sums, sums.at[:, -1].add(1e-3))
        others = jax.vmap(lambda s: power_sums(s, elements))(other)
        return x, back, other, sums, others, jax.vmap(compensated)(jax.random.split(net_key, networks))

    x, back, other, sums, other_sums, (first, second, top, other_top) = measure(key)
    # the condition of the roots is below 1e4 for these gaps
    yield equal("sets from their M power sums", back, x, atol=1e-10)
    yield equal("other sets: the first M-1 power sums", other_sums[:, :-1], sums[:, :-1], atol=1e-10)
    yield control("M-1 power sums are given", equal("change of the maximum", other[:, -1] - x[:, -1], 0.0, atol=1e-10))
    # Newton's method ends at the rounding of the sums
    yield equal("two sums of a network: the same for two sets of three", second, first, rtol=1e-12)
    yield control("two sums of a network are given", equal("change of the maximum", other_top - top, 0.0))


@claim(
    rows=("E07.06",),
    no_control="as_many_sums_as_elements has it: of numbers in an interval fewer than M sums are not enough.",
)
def one_sum_for_countably_many(key, *, most: Size = 4, size: Size = 6):
    r"""Where the elements can be counted off, one sum is enough, with codes whose gaps shrink geometrically.

    For elements numbered $c=1,2,\dots$ and multisets of at most $M$ of them let $\phi(x)=(M+1)^{-c(x)}$. The digits of
    $\sum_m\phi(x_m)$ in base $M+1$ say how often each element occurs, so that any function of such multisets is
    $\rho(\sum\phi)$ with $d=1$. Two sums may be as close as $(M+1)^{-n}$ for $n$ elements: as $M$ grows, $\rho$ must
    tell apart what floating-point numbers soon cannot.
    """
    choices = [c for m in range(1, most + 1) for c in combinations_with_replacement(range(size), m)]
    counts = np.array([np.bincount(c, minlength=size) for c in choices])
    codes = jnp.asarray(code(jnp.arange(size), size, most=most))
    order = jax.random.permutation(key, size)  # any numbering will do

    @jax.jit
    def measure(order):
        totals = jnp.asarray(counts, float) @ codes[order]
        return totals, jax.vmap(lambda t: decode(t, size, most=most)[order])(totals)

    totals, found = measure(order)
    yield equal("how often each element occurs, from the sum", found, counts, rtol=0, atol=0)
    gaps = np.diff(np.sort(np.append(np.asarray(totals), 0.0)))
    # sums below 1 are exact up to a few units of 1e-16
    yield equal("smallest gap between two sums", gaps.min(), (most + 1.0) ** -size, rtol=1e-9)
