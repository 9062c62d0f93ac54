"""Data in batches, against the same on all data at once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.network.batches import arrange, count, each, examples, first_examples, fold, pair

X = np.random.default_rng(0).normal(size=(11, 3))
Y = np.arange(11)


def test_data_are_trees_with_a_common_first_axis():
    data = examples("data", {"x": X, "y": [Y, Y.astype(np.uint8)]})
    assert count(data) == 11
    assert data["x"].dtype == X.dtype
    assert data["y"][1].dtype == np.uint8  # bytes stay bytes
    x, y = pair("data", [X, Y])
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(y, Y)


@pytest.mark.parametrize(("size", "full", "rest"), [(4, 2, 3), (5, 2, 1), (11, 0, 11), (20, 0, 11), (1, 11, 0)])
def test_batches_hold_every_example_once(size, full, rest):
    parts = arrange(pair("data", (X, Y)), size)
    assert (0 if parts.batches is None else count(parts.batches)) == full
    assert (0 if parts.rest is None else count(parts.rest)) == rest
    pieces = [] if parts.batches is None else [np.ravel(parts.batches[1])]
    pieces += [] if parts.rest is None else [np.asarray(parts.rest[1])]
    np.testing.assert_array_equal(np.concatenate(pieces), Y)
    few = first_examples(parts, 3)
    np.testing.assert_array_equal(few[1], Y[: min(3, size if full else 11)])


@pytest.mark.parametrize("size", [1, 4, 11])
def test_sums_over_batches_inside_a_trace_and_outside(size):
    def total(weight, part):
        return {"sum": weight * jnp.sum(part[0] ** 2), "n": jnp.asarray(count(part))}

    def run(weight, data):
        return fold(total, (weight,), arrange(data, size), lambda a, b: jax.tree.map(jnp.add, a, b))

    for way in (run, jax.jit(run)):
        found = way(2.0, pair("data", (X, Y)))
        np.testing.assert_allclose(found["sum"], 2 * np.sum(X**2), rtol=1e-12)
        assert found["n"] == 11


def test_outside_a_trace_one_program_is_called_for_every_batch():
    calls = []
    fold(lambda part: calls.append(count(part)) or jnp.zeros(()), (), arrange(jnp.asarray(X), 4), jnp.add)
    assert calls == [3, 4, 4]


@pytest.mark.parametrize("size", [1, 4, 11])
def test_values_for_each_example_end_to_end(size):
    found = jax.jit(lambda data: each(lambda part: {"norm": jnp.sum(part[0] ** 2, 1), "y": part[1]}, data, size))(
        pair("data", (X, Y))
    )
    np.testing.assert_allclose(found["norm"], np.sum(X**2, 1), rtol=1e-12)
    np.testing.assert_array_equal(found["y"], Y)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: examples("data", ()), "data must hold at least one array"),
        (lambda: examples("data", (X, Y[:3])), r"with the examples along one common first axis, got shapes \(11, 3\)"),
        (lambda: examples("data", (X, 3.0)), "with the examples along one common first axis"),
        (lambda: examples("data", X[:0]), r"data must not be empty, got shapes \(0, 3\)"),
        (lambda: examples("data", {"x": "abc"}), r"data\['x'\] must be an array of numbers, got str"),
        (lambda: examples("data", (X, X * np.nan)), r"data\[1\] must be finite, got nan"),
        (lambda: examples("data", X * 1j), "data must be real, got dtype complex"),
        (lambda: pair("train", X), r"train must be a pair \(x, y\) of inputs and targets, got ndarray"),
        (lambda: pair("train", (X, Y, Y)), r"train must be a pair \(x, y\)"),
        (lambda: arrange(X, 0), "batch_size must be at least 1, got 0"),
    ],
)
def test_bad_input(call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call()
