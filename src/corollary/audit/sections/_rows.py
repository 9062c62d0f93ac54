"""Rows of the data as numbers that can be compared: equal ones by digests, near ones by distances."""

import hashlib

import jax
import jax.numpy as jnp
import numpy as np

from corollary.network.batches import count

# as many rows as have their nearest neighbours sought at a time, and the numbers that each is sketched by
AT_ONCE, SKETCH = 64, 256


def digests(x) -> np.ndarray:
    """One number per example, equal for equal examples."""
    columns = [np.ascontiguousarray(np.asarray(a).reshape(count(x), -1)) for a in jax.tree.leaves(x)]
    rows = (b"".join(c[i].tobytes() for c in columns) for i in range(count(x)))
    return np.array([int.from_bytes(hashlib.blake2b(row, digest_size=8).digest()) for row in rows], np.uint64)


def measured(x) -> bool:
    """Whether all inputs are real numbers, which have distances."""
    return all(jnp.issubdtype(a.dtype, np.floating) for a in jax.tree.leaves(x))


def sketches(*sets):
    """Rows as few numbers with about their distances: columns with random signs, added up in random groups."""
    tables = [[np.asarray(a, np.float32).reshape(count(x), -1) for a in jax.tree.leaves(x)] for x in sets]
    tables = [t[0] if len(t) == 1 else np.concatenate(t, 1) for t in tables]
    centre, width = tables[0].mean(0, dtype=float), tables[0].shape[1]
    rng = np.random.default_rng(0)
    order, signs = rng.permutation(width), rng.choice((-1.0, 1.0), width)
    starts = np.unique(np.linspace(0, width, min(SKETCH, width), endpoint=False).astype(int))

    def sketched(table):
        parts = np.array_split(table, -(-table.size // 2**24))
        if width <= SKETCH:
            return np.concatenate([part - centre for part in parts])
        return np.concatenate([np.add.reduceat(((p - centre) * signs)[:, order], starts, axis=1) for p in parts])

    return [sketched(table) for table in tables]


def distances(queries, train, own=None, k: int | None = None):
    """The distances of queries to the nearest training row other than itself, or in rising order to the `k` nearest."""
    squares = (train**2).sum(1)
    found = []
    for i in range(0, len(queries), AT_ONCE):
        few = queries[i : i + AT_ONCE]
        d = (few**2).sum(1)[:, None] + squares - 2 * few @ train.T
        if own is not None:
            d[np.arange(len(few)), own[i : i + AT_ONCE]] = np.inf
        found.append(d.min(1) if k is None else np.sort(np.partition(d, k - 1, axis=1)[:, :k], axis=1))
    return np.sqrt(np.maximum(np.concatenate(found), 0))
