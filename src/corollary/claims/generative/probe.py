"""Linear probes: representations that make a task easy, and what few labels are worth on them."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import norm

from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal
from corollary.generative import linear_probe


@claim(rows=("T17.01",))
def a_representation_makes_a_task_linear(key, *, n: Size = 2000, draws: Count = 10):
    r"""A good representation is one on which few labels and a linear classifier are enough.

    Points in a disc of half the area of a square are told from those around it. On $(x_1^2,x_2^2,x_1x_2)$ the border is
    a plane: a probe with 100 labels gets nine in ten test points right. On the coordinates it does no better than the
    best of all lines, and three random features $\tanh(w\cdot x+b)$ do not reach nine in ten. Where the classes are
    $N(\pm\mu,I)$ no classifier is right more often than $\Phi(\|\mu\|)$; a probe with all labels is as often.
    """
    radius, mu = (2 / np.pi) ** 0.5, 1.0
    x_key, y_key, w_key, g_key, probe_key = jax.random.split(key, 5)
    x = jax.random.uniform(x_key, (2 * n, 2), minval=-1.0)
    y = np.asarray(jnp.sum(x**2, 1) < radius**2).astype(int)
    side = np.asarray(jax.random.bernoulli(y_key, shape=(2 * n,))).astype(int)
    normal = jax.random.normal(g_key, (2 * n, 5)) + mu * jnp.eye(5)[0] * (2 * side[:, None] - 1)
    w = 2 * jax.random.normal(w_key, (3, 3))

    def probe(f, x, y, labels):
        return linear_probe(f, (x[:n], y[:n]), (x[n:], y[n:]), labels, key=probe_key, draws=draws)

    squares = probe(lambda x: jnp.array([x[0] ** 2, x[1] ** 2, x[0] * x[1]]), x, y, 100)
    plain = probe(lambda x: x, x, y, 100)
    chance = probe(lambda x: jnp.tanh(w @ jnp.append(x, 1.0)), x, y, 100)
    # a plane of four numbers, found from 100 labels, errs on about four in a hundred
    yield at_least("squares of the coordinates, 100 labels", squares.accuracy, 0.9)
    # five standard errors of n test points
    yield at_most("the coordinates themselves, 100 labels", plain.accuracies, _best_line(radius) + 2.5 / n**0.5)
    yield control(
        "the features make the task linear: here random ones",
        at_least("three random features, 100 labels", chance.accuracy, 0.9),
    )
    counts = np.array([100, n])
    found = np.array([probe(lambda x: x, normal, side, int(m)).accuracies for m in counts])
    best = norm.cdf(mu)
    # five standard errors of n test points
    slack = 5 * (best * (1 - best) / n) ** 0.5
    yield at_most("two normal classes: accuracy", found, best + slack, x=np.arange(draws), along="draw")
    # and what six numbers from n labels cost: of the order of 6/n
    yield equal("two normal classes, all labels", found[-1, 0], best, rtol=0, atol=slack + 6 / n)


def _best_line(radius):
    """The most points of a fine grid of the square that a line gets right, over angles and offsets."""
    side = np.linspace(-1, 1, 101)
    a, b = np.meshgrid(side, side)
    inside = a**2 + b**2 < radius**2
    angles = np.linspace(0, np.pi / 4, 10)  # the rest is alike
    right = [np.mean((np.cos(t) * a + np.sin(t) * b < c) == inside) for t in angles for c in np.linspace(-1.4, 1.4, 57)]
    return max(*right, 1 - min(right))
