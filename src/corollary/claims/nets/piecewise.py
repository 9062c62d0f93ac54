"""The smooth maximum, and continuous piecewise linear functions as ReLU networks."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Positive, Size, at_least, at_most, claim, control, equal, rate
from corollary.nets import FeedForward, identity, piecewise_linear, relu, relu_network, smooth_maximum, softplus


@claim(rows=("M05.24",))
def log_sum_exp(key, *, vectors: Size = 200, dim: Size = 10):
    r"""The logarithm of a sum of exponentials is a smooth maximum, and of two terms the softplus.

    For $\beta>0$ and $x\in\mathbb R^d$, $\max_ix_i\le\beta\ln\sum_ie^{x_i/\beta}\le\max_ix_i+\beta\ln d$, with
    equality on the right for equal entries; so it tends to the maximum as $\beta\downarrow0$, in the worst case at
    the rate $\beta$. Of $(x,0)$ it is $\mathrm{Softplus}_{1/\beta}(x)$, at most $\beta\ln2$ above ReLU. The gradient
    is softmax$(x/\beta)$.
    """
    x = 3 * jax.random.normal(key, (vectors, dim))
    betas = 2.0 ** -jnp.arange(0, 10)

    @jax.jit
    def measure(x):
        excess = jax.vmap(lambda b: smooth_maximum(x, b) - x.max(-1))(betas)
        tied = jax.vmap(lambda b: smooth_maximum(jnp.broadcast_to(x[:, :1], x.shape), b) - x[:, 0])(betas)
        pair = jnp.stack([x[:, 0], jnp.zeros(len(x))], 1)
        two = jax.vmap(lambda b: smooth_maximum(pair, b))(betas)
        slopes = jax.vmap(jax.grad(lambda v: smooth_maximum(v, 0.5)))(x)
        # with -β the formula is minus the smooth maximum of -x
        below = jax.vmap(lambda b: -smooth_maximum(-x, b) - x.max(-1))(betas)
        soft = jnp.stack([softplus(2.0**k)(x[:, 0]) for k in range(len(betas))])
        return excess, tied, two, slopes, below, soft

    excess, tied, two, slopes, below, soft = measure(x)
    bound = betas[:, None] * jnp.log(1.0 * dim)
    # the maximum is subtracted from a number of its size
    rounding = 4 * 2.3e-16 * float(jnp.abs(x).max())
    yield at_least("excess over the maximum", excess, 0.0, atol=rounding)
    yield at_most("excess over the maximum, at most β ln d", excess, bound, atol=rounding)
    yield equal("equal entries: excess", tied, jnp.broadcast_to(bound, tied.shape), atol=rounding)
    yield rate("largest excess, equal entries", betas, tied.max(1), 1.0, tolerance=1e-6, along="β")
    yield equal("of x and 0: the softplus", two, soft, rtol=1e-12, atol=rounding)
    yield at_most(
        "of x and 0: excess over ReLU", two - jnp.maximum(x[:, 0], 0), betas[:, None] * jnp.log(2.0), atol=rounding
    )
    yield equal("gradient", slopes, jax.nn.softmax(x / 0.5, axis=-1), rtol=1e-12)
    yield control("β is positive: here negative", at_least("excess over the maximum", below, 0.0, atol=rounding))


EXERCISES = {
    # knots, slopes, and the two units: inner weights, inner biases, outer weights
    "5.5": ([0.0, 1.0], [0.0, 1.0, 2.0], [1.0, 1.0], [0.0, -1.0], [1.0, 1.0]),
    "5.6": ([0.0, 1.0], [-2.0, 0.0, 3.0], [-1.0, 1.0], [0.0, -1.0], [2.0, 3.0]),
}


def _two_units(inner, bias, outer):
    return FeedForward.of(
        [(jnp.array(inner)[:, None], jnp.array(bias)), (jnp.array([outer]), jnp.zeros(1))], (relu, identity)
    )


@claim(rows=("M05.28", "M05.29"))
def hinges(key, *, functions: Size = 50, knots: Size = 6, points: Size = 400, reach: Positive = 3.0):
    r"""Every continuous piecewise linear function of one number is a ReLU network with one hidden layer.

    The exercises: $f=(0,x,2x-1)$ on $x<0$, $[0,1)$, $x\ge1$ is $\mathrm{ReLU}(x)+\mathrm{ReLU}(x-1)$, and
    $f=(-2x,0,3(x-1))$ is $2\,\mathrm{ReLU}(-x)+3\,\mathrm{ReLU}(x-1)$, each with two units. In general $k$ knots need
    at most $k+1$ units: one a knot, with the change of slope as its outer weight, and one for the slope on the left.
    """
    knot_key, slope_key, value_key = jax.random.split(key, 3)
    x = jnp.linspace(-reach, reach, points)
    pieces = {
        "5.5": np.where(x < 0, 0.0, np.where(x < 1, x, 2 * x - 1)),
        "5.6": np.where(x < 0, -2 * x, np.where(x < 1, 0.0, 3 * (x - 1))),
    }

    @jax.jit
    def exercises(x):
        def values(network):
            return jax.vmap(network)(x[:, None])[:, 0]

        return [
            (values(_two_units(*units)), values(relu_network(breaks, slopes)))
            for breaks, slopes, *units in EXERCISES.values()
        ]

    for name, (two, general) in zip(EXERCISES, exercises(x), strict=True):
        # sums of two terms of the size of the result
        yield equal(f"Exercise {name}, two units", two, pieces[name], rtol=1e-15, atol=1e-15, x=x, along="x")
        yield equal(f"Exercise {name}, from knots and slopes", general, pieces[name], rtol=1e-15, atol=1e-15)
    # distances between knots of at least 0.1
    gaps = 0.1 + jax.random.uniform(knot_key, (functions, knots)) * 2 * reach / knots
    where = jnp.cumsum(gaps, 1) - reach
    steep, height = jax.random.normal(slope_key, (functions, knots + 1)), jax.random.normal(value_key, (functions,))

    @jax.jit
    def measure(where, steep, height):
        def one(k, s, v):
            return jax.vmap(relu_network(k, s, v))(x[:, None])[:, 0], piecewise_linear(x, k, s, v)

        return jax.vmap(one)(where, steep, height)

    networks, exact = measure(where, steep, height)
    # NumPy interpolates between the knots and two far points, whose heights the outer slopes give
    ends = jnp.array([-2 * reach, 4 * reach])
    reference = np.stack(
        [
            np.interp(x, np.concatenate([ends[:1], k, ends[1:]]), np.concatenate(
                [[h[0] + s[0] * (ends[0] - k[0])], h, [h[-1] + s[-1] * (ends[1] - k[-1])]]))
            for k, s, h in zip(*map(np.asarray, (where, steep, _heights(where, steep, height))), strict=True)
        ]
    )  # fmt: skip
    # sums of knots + 2 terms of the size of a slope times the reach
    rounding = 1e-15 * (knots + 2) * 4 * reach * float(jnp.abs(steep).max() + 1)
    yield equal("random functions: network against interpolation", networks, reference, rtol=0, atol=rounding)
    yield equal("random functions: pieces against interpolation", exact, reference, rtol=0, atol=rounding)
    jumping = reference + (np.asarray(x) > np.asarray(where)[:, :1])
    yield control(
        "the function is continuous: here it jumps at its first knot",
        equal("network against interpolation", networks, jumping, rtol=0, atol=rounding),
    )
    yield control(
        "there is a unit for every knot: here one for two", equal("Exercise 5.5", jnp.maximum(x, 0), pieces["5.5"])
    )


def _heights(where, steep, height):
    rises = steep[:, 1:-1] * jnp.diff(where, axis=1)
    return height[:, None] + jnp.concatenate([jnp.zeros((len(where), 1)), jnp.cumsum(rises, 1)], axis=1)
