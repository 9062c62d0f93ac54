"""Distances between examples, row by row from their differences: equal examples are at distance 0 exactly."""

import jax
import jax.numpy as jnp
from jax import lax

from corollary._text import first_line
from corollary._validate import real, whole

#: numbers of a set of which all differences are taken
SMALL = 2**22


def table(name: str, x):
    """Examples of any shape as rows of numbers, (n, d)."""
    x = real(name, x)
    if x.ndim == 0 or x.size == 0:
        raise ValueError(f"{name} must hold at least one example, got shape {x.shape}.")
    return x.reshape(len(x), -1)


def tables(**named):
    """Several sets of examples of one shape as rows of numbers."""
    found = {name: real(name, x) for name, x in named.items()}
    first = next(iter(found))
    for name, x in found.items():
        if x.ndim == 0 or x.shape[1:] != found[first].shape[1:]:
            raise ValueError(
                f"{name} must hold examples of the shape of those of {first}, {found[first].shape[1:]}, got {x.shape}."
            )
    return tuple(table(name, x) for name, x in found.items())


def called(sample, count: int, key):
    """What `sample(count, key=key)` returns, one sentence if it cannot be called so."""
    if not callable(sample):
        raise TypeError(f"sample must be a function sample(count, key=key), got {type(sample).__name__}.")
    try:
        return sample(count, key=key)
    except TypeError as error:
        raise TypeError(f"sample(count, key=key) failed: {first_line(error)}.") from error


def drawn(sample, count: int, key, like=None):
    """`count` examples of a sampler, one sentence if it does not give them."""
    x = real("what sample returns", called(sample, whole("size", count), key))
    want = ("count", "...") if like is None else (count, *like)
    if x.ndim == 0 or len(x) != count or (like is not None and x.shape[1:] != like) or x.size == 0:
        raise ValueError(f"sample(count, key=key) must return count = {count} examples, {want}, got shape {x.shape}.")
    return x


def distances(x, y):
    """All distances (n, m) between rows."""
    return lax.map(lambda a: jnp.sqrt(jnp.sum((a - y) ** 2, -1)), x)


@jax.jit
def nearest(x, y):
    """For each row of x the distance to the nearest row of y, and which one that is.

    Of large sets two rows are sought by products, and their distances are taken from the differences.
    """
    centre = y.mean(0)
    squares, centred = jnp.sum((y - centre) ** 2, 1), y - centre

    def by_differences(a):
        apart = jnp.sum((a - y) ** 2, -1)
        at = jnp.argmin(apart)
        return jnp.sqrt(apart[at]), at

    def by_products(a):
        apart = squares - 2 * centred @ (a - centre)
        at = jnp.argmin(apart)
        other = jnp.argmin(apart.at[at].set(jnp.inf))
        exact = jnp.sum((a - y[jnp.stack([at, other])]) ** 2, -1)
        return jnp.sqrt(exact.min()), jnp.where(exact[1] < exact[0], other, at)

    return lax.map(by_differences if y.size <= SMALL else by_products, x, batch_size=min(16, len(x)))
