"""Epochs: what a permutation of the examples spares SGD, and what independent draws miss."""

import altair as alt
import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims.optimization._regression import regression
from corollary.evidence import Count, Size, at_most, claim, control, equal, estimate, picture
from corollary.optimization import epoch_variance, least_squares_sum, minimize, sgd


@claim(rows=("M18.06",))
def order_of_the_examples(key, *, n: Size = 6, runs: Count = 256, epochs: Count = 50):
    r"""Epochs that go through a permutation end nearer to the minimum than as many independent draws.

    On $f_i=\frac12(\theta-a_i)^2$ an epoch of $n$ steps averages the examples with weights that are nearly equal, and
    a permutation makes the average nearly exact: at the end of an epoch the stationary variance is
    $\frac{\eta s^2}{2-\eta}$ for independent draws and about $\frac{n(n+1)}{24}\eta^3s^2$ for permutations, both known
    exactly. On least squares in the plane, where the curvatures differ, permutations end at less than half the mean
    squared distance as well.
    """
    etas = jnp.array([0.05, 0.1, 0.2, 0.4])
    steps = n * epochs
    ends = n * np.arange(epochs // 2, epochs + 1, 5)

    @jax.jit
    def measure(key):
        a_key, r_key, x_key = jax.random.split(key, 3)
        a = jax.random.normal(a_key, (n,))
        a = (a - a.mean()) / a.std()  # s = 1, minimum at 0
        line = least_squares_sum(jnp.ones((n, 1)), a, jnp.zeros(1))

        def squares(problem, centre, start, sampling, eta):
            def one(key):
                path = minimize(problem, sgd(eta, sampling=sampling), steps=steps, key=key, start=start).theta
                return jnp.sum((path[ends] - centre) ** 2, axis=1)

            return jax.vmap(one)(jax.random.split(r_key, runs))

        found = [
            jax.lax.map(lambda eta, s=s: squares(line, jnp.zeros(1), jnp.zeros(1), s, eta), etas).mean(-1)
            for s in ("with", "reshuffle")
        ]
        x, y, start = regression(x_key, n, 2)
        plane = least_squares_sum(x, y, start)
        top = 0.2 / jnp.sum(x**2, axis=1).max()
        far = [squares(plane, plane.minimiser, plane.minimiser, s, top).mean() for s in ("with", "reshuffle")]
        return *found, jnp.stack(far), (a @ a) / n

    drawn, shuffled, far, square = (np.asarray(part) for part in measure(key))
    exact = {s: np.asarray(epoch_variance(etas, n, s)) for s in ("with", "reshuffle")}
    yield equal("spread of the examples", square, 1.0)
    yield estimate("independent draws: variance", drawn.T, exact["with"], wrong=0.5 * exact["with"])
    yield estimate("permutations: variance", shuffled.T, exact["reshuffle"], wrong=0.5 * exact["reshuffle"])
    yield at_most("least squares in the plane: permutations over draws", far[1] / far[0], 0.5)
    yield control(
        "independent draws in place of a permutation",
        estimate("variance", drawn.T, exact["reshuffle"], wrong=0.5 * exact["reshuffle"]),
    )


@claim(rows=("M18.06",))
def coverage(key, *, runs: Count = 2000, n: Size = 100):
    r"""As many independent draws as there are examples see 63 percent of them.

    Of $n$ examples $n$ draws with replacement see a share of $1-(1-\frac1n)^n\to1-\frac1e$ on average, of variance
    $\frac1n\big[p+(n-1)r-np^2\big]$ with $p=(1-\frac1n)^n$, $r=(1-\frac2n)^n$; a permutation sees all.
    """

    @jax.jit
    def measure(key):
        def share(drawn):
            return jnp.zeros(n).at[drawn].set(1.0).mean()

        def one(key):
            return share(jax.random.randint(key, (n,), 0, n)), share(jax.random.permutation(key, n))

        return jax.vmap(one)(jax.random.split(key, runs))

    drawn, shuffled = (np.asarray(a) for a in measure(key))
    p, r = (1 - 1 / n) ** n, (1 - 2 / n) ** n
    variance = (p + (n - 1) * r - n * p**2) / n
    yield estimate("share seen by independent draws", drawn, 1 - p, wrong=0.65)
    # the mean is (1 - 1/n)^n of the limit off, of relative order 1/(2 n), and known to five standard errors
    error = 5 * np.sqrt(variance / runs)
    yield equal("near 1 - 1/e", drawn.mean(), 1 - np.exp(-1), rtol=1 / n, atol=error)
    yield estimate("its variance", (drawn - 1 + p) ** 2, variance, wrong=p * (1 - p) / n)
    yield equal("share seen by a permutation", shuffled, 1.0, rtol=1e-12)
    yield control("independent draws in place of a permutation", equal("share seen", drawn, 1.0, rtol=1e-12))
    rows = [{"share": float(v)} for v in drawn]
    bars = alt.Chart(alt.Data(values=rows)).mark_bar()
    bars = bars.encode(alt.X("share:Q", bin=alt.Bin(step=0.01), title="share seen in an epoch"), alt.Y("count()"))
    yield picture("share seen by independent draws", bars.properties(width=300, height=190))
