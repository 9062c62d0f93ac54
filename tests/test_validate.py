"""The sentences at the boundary."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary._validate import interval, labels, one_of, positive, real, whole, within


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: real("x", "abc"), TypeError, "x must be an array of numbers, got str"),
        (lambda: real("x", object()), TypeError, "x must be an array of numbers"),
        (lambda: real("x", [[1, 2], [3]]), TypeError, "x must be an array of numbers"),
        (lambda: real("x", 1j), TypeError, "x must be real"),
        (lambda: real("x", [1.0, np.nan]), ValueError, r"x must be finite, got nan at index 1"),
        (lambda: real("x", [[1.0, np.inf]]), ValueError, r"got inf at index \(0, 1\)"),
        (lambda: real("x", np.nan), ValueError, r"x must be finite, got nan"),
        (lambda: real("x", [1.0], ""), ValueError, r"x must have shape \(\), got \(1,\)"),
        (lambda: real("x", 1.0, "n"), ValueError, r"x must have shape \(n,\), got \(\)"),
        (lambda: real("x", [[1.0]], "n 2"), ValueError, r"x must have shape \(n, 2\), got \(1, 1\)"),
        (lambda: real("x", np.zeros((0, 2)), "n d"), ValueError, "x must not be empty"),
        (lambda: real("x", np.zeros((3, 2)), "... 3"), ValueError, r"\(..., 3\), got \(3, 2\)"),
        (lambda: labels("y", [0, 1.5], 2), ValueError, "y must hold whole numbers as class labels, got 1.5 at index 1"),
        (lambda: labels("y", [0, 2], 2), ValueError, "y must hold labels from 0 to 1, got 2 at index 1"),
        (lambda: labels("y", [-1], None), ValueError, "labels from 0 or more"),
        (lambda: labels("y", [[0]], 2), ValueError, r"y must have shape \(n,\)"),
        (lambda: within("p", 1.0, 0, 1, open="high"), ValueError, r"p must be in \[0, 1\), got 1.0"),
        (lambda: within("p", np.nan, 0, 1), ValueError, r"p must be in \[0, 1\], got nan"),
        (lambda: positive("eta", 0.0), ValueError, "eta must be positive, got 0.0"),
        (lambda: positive("eta", [1.0, -1.0]), ValueError, "eta must be positive, got -1.0 at index 1"),
        (lambda: whole("n", 1.0), TypeError, "n must be an integer, got 1.0"),
        (lambda: whole("n", True), TypeError, "n must be an integer, got True"),
        (lambda: whole("n", 0), ValueError, "n must be at least 1, got 0"),
        (lambda: whole("n", 9, 1, 3), ValueError, "n must be from 1 to 3, got 9"),
        (lambda: one_of("law", "x", ("a", "b")), ValueError, "law must be one of 'a', 'b', got 'x'"),
        (lambda: jax.jit(lambda n: whole("n", n))(3), TypeError, "not a value traced by jit"),
        (lambda: jax.jit(lambda y: labels("y", y, 2))(jnp.ones(2)), TypeError, "integer class labels"),
    ],
)
def test_sentences(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_names_bind_over_several_arguments():
    dims = {}
    real("x", np.zeros((5, 3)), "n d", dims)
    with pytest.raises(ValueError, match=r"y must have shape \(n,\) with n = 5, got \(4,\)"):
        real("y", np.zeros(4), "n", dims)


def test_values_inside_a_trace_are_not_looked_at_and_constants_are():
    good, bad = np.ones(3), np.array([1.0, np.nan, 1.0])
    traced = jax.jit(lambda x: real("x", x) + real("c", good) + within("w", jnp.ones(3), 0, 2))
    assert np.isnan(traced(bad)).any()
    with pytest.raises(ValueError, match="c must be finite"):
        jax.jit(lambda x: x + real("c", bad))(good)


def test_dtypes_follow_the_input():
    assert real("x", np.float32(1)).dtype == jnp.float32
    assert real("x", 1).dtype == jnp.result_type(float)
    assert real("x", jnp.ones(2, jnp.bfloat16)).dtype == jnp.bfloat16
    with jax.enable_x64(True):
        assert real("x", 1).dtype == jnp.float64
        assert labels("y", [0.0, 1.0], 2).dtype == jnp.int64


def test_intervals_in_words():
    assert interval(0, np.inf, "low") == "positive"
    assert interval(0, np.inf) == "zero or more"
    assert interval(2, np.inf) == "at least 2"
    assert interval(2, np.inf, "low") == "greater than 2"
    assert interval(-np.inf, 3) == "at most 3"
    assert interval(-np.inf, 3, "high") == "less than 3"
    assert interval(0, 1, "both") == "in (0, 1)"
