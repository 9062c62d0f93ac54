"""Convex sets and functions by their definition: segments and chords, searched for one that fails."""

import altair as alt
import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, picture
from corollary.nets import MLP, permute_hidden, tanh
from corollary.optimization import convexity_violation, leaves_set


@claim(rows=("B05.03",))
def chords(key, *, dim: Size = 4, pairs: Count = 64):
    r"""No chord of a convex function lies below it, however one looks; those of others are found.

    $f(\alpha x+(1-\alpha)y)\le\alpha f(x)+(1-\alpha)f(y)$ for norms, semidefinite quadratics and log-sum-exp: a search
    uphill from random pairs finds nothing above rounding. For $\sum\sin$ and an indefinite quadratic it does, and for
    $\sin$ on the line it finds the worst chord of all, which rises from a minimum to a minimum: 2.
    """

    @jax.jit
    def measure(key):
        x_key, y_key, m_key = jax.random.split(key, 3)
        x, y = jax.random.normal(x_key, (pairs, dim)), jax.random.normal(y_key, (pairs, dim))
        mix = jax.random.normal(m_key, (dim // 2, dim))
        form = mix.T @ mix
        convex = {
            "l1 norm": lambda t: jnp.abs(t).sum(),
            "l2 norm": jnp.linalg.norm,
            "linf norm": lambda t: jnp.abs(t).max(),
            "semidefinite quadratic": lambda t: t @ form @ t,
            "log-sum-exp": jax.nn.logsumexp,
        }
        other = {
            "sines": lambda t: jnp.sin(t).sum(),
            "indefinite quadratic": lambda t: t @ form @ t - 0.5 * jnp.trace(form) * t[0] ** 2,
        }

        def worst(f):
            return jax.vmap(lambda u, v: convexity_violation(f, u, v).value)(x, y).max()

        line = jax.vmap(lambda u, v: convexity_violation(jnp.sin, u, v, steps=400, step=0.02).value)
        return (
            jnp.stack([worst(f) for f in convex.values()]),
            jnp.stack([worst(f) for f in other.values()]),
            line(x[:, 0], x[:, 0] + 4 + y[:, 0]).max(),
        )

    convex, other, line = measure(key)
    # values of the order of 10 at most, a few units in the last place of each
    yield at_most("norms, semidefinite quadratic, log-sum-exp: largest violation", convex, 1e-13)
    yield at_least("sines, indefinite quadratic: largest violation", other, 0.1)
    # steps of 0.02 in three numbers; the value is flat to second order at the maximum
    yield equal("sine on the line: the worst chord", line, 2.0, atol=1e-3)
    yield control("functions that are not convex", at_most("largest violation", other, 1e-13))


@claim(rows=("B05.03",))
def permuted_minima(key, *, units: Size = 6, n: Size = 40):
    r"""Between two minima of a network that are one up to the order of its units the loss is positive.

    The squared loss of a tanh network on the outputs of another is zero at the other's parameters and at those with its
    hidden units renamed. Were it convex in the parameters, it would be zero on the segment between them. For a linear
    model, which has but one minimiser, it is.
    """
    grid = jnp.linspace(0.0, 1.0, 41)

    @jax.jit
    def measure(key):
        w_key, x_key = jax.random.split(key)
        teacher = MLP((2, units, 1), tanh, key=w_key)
        renamed = permute_hidden(teacher, 0, jnp.roll(jnp.arange(units), 1))
        x = jax.random.normal(x_key, (n, 2))
        y = jax.vmap(teacher)(x)

        def between(t):
            student = jax.tree.map(lambda a, b: (1 - t) * a + t * b, teacher, renamed)
            return 0.5 * jnp.mean((jax.vmap(student)(x) - y) ** 2)

        weights = teacher.layers[0].weight[0]
        z = x @ weights
        start = 2 * weights
        straight = jax.vmap(lambda t: 0.5 * jnp.mean((x @ ((1 - t) * start + t * weights) - z) ** 2))(grid)
        chord = (1 - grid) * straight[0] + grid * straight[-1]
        return jax.vmap(between)(grid), straight - chord

    loss, straight = measure(key)
    # outputs of the order of 1, squared rounding
    yield equal("loss at both ends", loss[np.array([0, -1])], 0.0, atol=1e-25)
    yield at_least("loss half way", loss[20], 1e-6)
    yield at_most("linear model: loss above the chord", straight, 0.0, atol=1e-15, x=grid, along="share")
    yield control(
        "a network in place of the linear model",
        at_most("loss above the chord", loss, 0.0, atol=1e-15, x=grid, along="share"),
    )
    rows = [{"share": float(t), "loss": float(v)} for t, v in zip(grid, loss, strict=True)]
    chart = alt.Chart(alt.Data(values=rows)).mark_line().encode(alt.X("share:Q"), alt.Y("loss:Q"))
    yield picture("loss between two minima with renamed units", chart.properties(width=300, height=190))


@claim(rows=("B05.03",))
def convex_sets(key, *, pairs: Count = 20000):
    r"""A set is convex if it holds the segments between its points; others let go of some.

    Balls of norms, half spaces, simplices, positive semidefinite matrices: no point between two random members is
    outside. A thick shell, a cross and the matrices near rank one do not hold theirs.
    """

    def matrix(t):
        return jnp.array([[t[0], t[1]], [t[1], t[2]]])

    sets = {
        "ball of l1": lambda t: jnp.abs(t).sum() <= 1,
        "ball of l2": lambda t: t @ t <= 1,
        "ball of linf": lambda t: jnp.abs(t).max() <= 0.8,
        "half space": lambda t: t[0] + 2 * t[1] <= 0.3,
        "simplex": lambda t: (t.min() >= -0.5) & (t.sum() <= 0),
        "semidefinite": lambda t: (t[0] >= 0) & (t[2] >= 0) & (t[0] * t[2] >= t[1] ** 2),
    }
    others = {
        "shell": lambda t: (t @ t >= 0.5) & (t @ t <= 1),
        "cross": lambda t: jnp.sum(jnp.abs(t) > 0.2) <= 1,
        "nearly rank one": lambda t: jnp.abs(jnp.linalg.det(matrix(t))) <= 0.05,
    }

    @jax.jit
    def measure(key):
        x_key, y_key, a_key = jax.random.split(key, 3)
        x, y = (jax.random.uniform(k, (pairs, 3), minval=-1, maxval=1) for k in (x_key, y_key))
        weight = jax.random.uniform(a_key, (pairs,), minval=0.05, maxval=0.95)

        def broken(member):
            inside = jax.vmap(lambda u, v: member(u) & member(v))(x, y).sum()
            return jax.vmap(lambda u, v, a: leaves_set(member, u, v, a))(x, y, weight).sum(), inside

        good = [broken(member) for member in sets.values()]
        bad = [broken(member) for member in others.values()]
        return tuple(jnp.array(column) for column in zip(*(good + bad), strict=True))

    left, inside = (np.asarray(a) for a in measure(key))
    yield at_least("pairs of members tried, for each set", inside, 10.0)
    yield equal("segments that leave: balls, half space, simplex, semidefinite", left[: len(sets)], 0, rtol=0, atol=0)
    yield at_least("segments that leave: shell, cross, nearly rank one", left[len(sets) :], 1.0)
    yield control("sets that are not convex", equal("segments that leave", left[len(sets) :], 0, rtol=0, atol=0))
