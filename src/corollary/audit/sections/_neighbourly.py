"""Do near examples have alike labels? Then the inputs say something about them, whatever a network makes of it."""

import jax
import numpy as np

from corollary.audit.sections._rows import digests, measured, sketches

# orders of the labels that are tried, and the fewest examples that have neighbours to speak of
ORDERS, FEWEST = 1999, 20


def chance(x, y) -> float | None:
    """How likely it is that labels in random order agree as well with those of the nearest other example.

    `y` are classes (n,) or numbers (n, k). Equal examples count once: copies agree whatever their labels say. None for
    inputs without distances, and for too few examples.
    """
    if not measured(x):
        return None
    rows = np.unique(digests(x), return_index=True)[1]
    if len(rows) < FEWEST:
        return None
    table, y = sketches(jax.tree.map(lambda a: np.asarray(a)[rows], x))[0].astype(float), np.asarray(y)[rows]
    squares = (table**2).sum(1)
    apart = squares[:, None] + squares - 2 * table @ table.T
    np.fill_diagonal(apart, np.inf)
    nearest = apart.argmin(1)
    rng = np.random.default_rng(0)
    told = _agreement(y, nearest)
    by_chance = sum(_agreement(y[rng.permutation(len(y))], nearest) >= told for _ in range(ORDERS))
    return (1 + by_chance) / (1 + ORDERS)


def _agreement(y, nearest) -> float:
    if y.ndim == 1:
        return float(np.mean(y == y[nearest]))
    return -float(np.mean((y - y[nearest]) ** 2))
