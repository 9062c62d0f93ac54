"""Attacks in parts, one for each core: the same numbers as in one part, in the precision and the memory asked for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets import MLP, relu
from corollary.robustness import Ball, _cores, pgd

NETWORK = MLP((5, 8, 3), relu, key=jax.random.key(0))
X = jax.random.normal(jax.random.key(1), (13, 5), jnp.float32)
Y = jnp.arange(13) % 3


@pytest.fixture
def sizes(monkeypatch):
    """How many examples each part had, and how many of them at once."""
    seen, climb = [], _cores.ThreadPoolExecutor.map

    def noted(pool, function, *given):
        found = list(climb(pool, function, *given))
        seen.append((len(found), len(jax.tree.leaves(found[0])[0])))
        return found

    monkeypatch.setattr(_cores, "FEWEST", 2)
    monkeypatch.setattr(_cores.os, "sched_getaffinity", lambda _: range(4), raising=False)
    monkeypatch.setattr(_cores.ThreadPoolExecutor, "map", noted)
    return seen


def attacked(network=NETWORK, x=X, batch_size=8):
    ball = Ball(2, 0.3)
    return pgd(
        network, "cross_entropy", (x, Y), ball, steps=4, restarts=2, key=jax.random.key(2), batch_size=batch_size
    )


def test_parts_are_the_whole(sizes):
    found = attacked()
    assert sizes == [(4, 4)]  # of 13 examples; the last part begins three earlier
    whole = jax.jit(attacked)()  # inside a trace nothing is taken apart
    assert len(sizes) == 1
    for part, all_ in zip(jax.tree.leaves(found), jax.tree.leaves(whole), strict=True):
        np.testing.assert_allclose(part, all_, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("batch_size", "parts"), [(2, []), (5, [(2, 7)]), (100, [(4, 4)])])
def test_small_batches_are_left_whole(sizes, batch_size, parts):
    attacked(batch_size=batch_size)
    assert sizes == parts


@pytest.mark.parametrize("batch_size", [2, 5, 8, 100])
def test_all_cores_together_have_no_more_than_a_batch(sizes, batch_size):
    given = []

    def run(start, count, size):
        given.append(size)
        return X[start : start + count]

    np.testing.assert_array_equal(_cores.side_by_side(run, X, batch_size, ()), X)
    assert len(given) == 1 or sum(given) <= batch_size
    assert max(given) <= batch_size


def test_precision_is_that_of_the_caller(sizes):
    with jax.enable_x64(True):
        network = MLP((5, 8, 3), relu, key=jax.random.key(0))
        assert attacked(network, jnp.asarray(X, jnp.float64)).inputs.dtype == jnp.float64
    assert sizes == [(4, 4)]
