"""Threshold neurons against truth tables written down by hand, hyperplanes against projections by least squares."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.linear import (
    LinearThreshold,
    McCullochPitts,
    binary_inputs,
    find_mcculloch_pitts,
    hyperplane,
    margin,
    mcculloch_pitts_tables,
    sgn,
    sgn_plus,
    signed_distance,
    truth_table,
)


@pytest.fixture(autouse=True)
def _x64():
    with jax.enable_x64(True):
        yield


def test_the_two_signs_differ_only_at_zero():
    z = jnp.array([-2.0, -0.0, 0.0, 3.0])
    np.testing.assert_array_equal(sgn(z), [-1, 0, 0, 1])
    np.testing.assert_array_equal(sgn_plus(z), [-1, 1, 1, 1])


def test_gates_by_hand():
    np.testing.assert_array_equal(binary_inputs(2), [[0, 0], [0, 1], [1, 0], [1, 1]])
    np.testing.assert_array_equal(truth_table(McCullochPitts([1, 1], 2), 2), [0, 0, 0, 1])
    np.testing.assert_array_equal(truth_table(McCullochPitts([1, 1], 1), 2), [0, 1, 1, 1])
    np.testing.assert_array_equal(truth_table(McCullochPitts([-1], 0), 1), [1, 0])
    np.testing.assert_array_equal(truth_table(McCullochPitts([1, -1], 1), 2), [0, 0, 1, 0])


@pytest.mark.parametrize("n", [1, 2, 3])
def test_what_is_found_has_the_table_and_what_is_not_found_is_not_there(n):
    tables = {tuple(int(v) for v in t) for t in np.asarray(mcculloch_pitts_tables(n))}
    for code in range(2 ** (2**n)):
        table = [(code >> i) & 1 for i in range(2**n)]
        neuron = find_mcculloch_pitts(table)
        assert (neuron is not None) == (tuple(table) in tables)
        if neuron is not None:
            np.testing.assert_array_equal(truth_table(neuron, n), table)


def test_unit_is_three_valued_or_two_valued():
    x = jnp.array([[1.0, 1.0], [2.0, 0.0], [0.0, 0.0]])
    np.testing.assert_array_equal(jax.vmap(LinearThreshold.of([1.0, -1.0]))(x), [0, 1, 0])
    np.testing.assert_array_equal(jax.vmap(LinearThreshold.of([1.0, -1.0], at_zero=1))(x), [1, 1, 1])
    unit = LinearThreshold(3, key=jax.random.key(1))
    assert unit.weight.shape == (3,)
    assert unit.bias.shape == ()
    assert float(jax.jit(lambda x: unit(x))(jnp.ones(3))) == float(jnp.sign(unit.weight.sum() + unit.bias))


@pytest.mark.parametrize("scale", [1.0, -2.5, 1e200, 1e-200])
def test_hesse_normal_form(scale):
    rng = np.random.default_rng(0)
    w, b, x = rng.normal(size=4), 0.7, rng.normal(size=(6, 4))
    plane = hyperplane(scale * w, scale * b)
    np.testing.assert_allclose(np.linalg.norm(plane.normal), 1)
    np.testing.assert_allclose(plane.foot @ w + b, 0, atol=1e-14)
    np.testing.assert_allclose(plane.offset, -np.sign(scale) * b / np.linalg.norm(w))
    # the projection as the solution of a least squares problem on a basis of the hyperplane
    basis = np.linalg.svd(w[None])[2][1:].T
    foot = -b * w / (w @ w)
    nearest = foot + (x - foot) @ basis @ basis.T
    np.testing.assert_allclose(plane.project(x), nearest, atol=1e-13)
    np.testing.assert_allclose(np.abs(plane.distance(x)), np.linalg.norm(x - nearest, axis=1))


def test_signed_distance_and_margin():
    x, y = np.array([[3.0, 4.0], [0.0, 0.0], [-3.0, -4.0]]), np.array([1, -1, -1])
    np.testing.assert_allclose(signed_distance([3.0, 4.0], 5.0, x, y), [6.0, -1.0, 4.0])
    assert float(margin([3.0, 4.0], 5.0, x, y)) == -1.0
    assert float(jax.jit(lambda w: margin(w, 0.0, x, y))(jnp.zeros(2))) == 0.0


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: McCullochPitts([1, 0], 1), "sigma must hold the labels -1 and 1, got 0 at index 1."),
        (lambda: McCullochPitts([1, 1], 1)(jnp.array([0.5, 1])), "x must hold zeros and ones only."),
        (lambda: McCullochPitts([1, 1], 1)(jnp.ones(3)), "x must have shape (2,), got (3,)."),
        (lambda: find_mcculloch_pitts([0, 1, 1]), "table must have 2, 4, ... or 256 entries, got 3."),
        (lambda: find_mcculloch_pitts([0, 2]), "table must hold zeros and ones only."),
        (lambda: binary_inputs(21), "n must be from 1 to 20, got 21."),
        (lambda: mcculloch_pitts_tables(9), "n must be from 1 to 8, got 9."),
        (lambda: truth_table(3, 2), "function must be a function of one input vector, got int."),
        (lambda: LinearThreshold.of([1.0], at_zero=2), "at_zero must be one of 0, 1, got 2."),
        (lambda: hyperplane([0.0, 0.0], 1.0), "w must not be zero: it defines no hyperplane."),
        (lambda: signed_distance([1.0], 0.0, [[1.0]], [0]), "y must hold the labels -1 and 1, got 0 at index 0."),
        (lambda: margin([1.0, 2.0], 0.0, [[1.0]], [1]), "w must have shape (1,), got (2,)."),
        (lambda: sgn([np.nan]), "z must be finite, got nan at index 0."),
        (lambda: sgn_plus([np.inf]), "z must be finite, got inf at index 0."),
        (lambda: hyperplane([1.0, 2.0], 0.0).distance([1.0]), "x must have shape (..., 2) with 2 = 2, got (1,)."),
    ],
)
def test_bad_input_gets_one_sentence(call, sentence):
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    assert str(caught.value) == sentence.replace(" with 2 = 2", "")
