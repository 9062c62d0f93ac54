"""Elementary functions of numbers of any kind, against NumPy and SciPy."""

import cmath

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit

from corollary.autodiff import Dual, Tensor, elementary

NAMES = ("exp", "log", "tanh", "sin", "cos")


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("name", NAMES)
def test_every_kind_of_number_gets_the_same_value(name):
    function, expected = getattr(elementary, name), getattr(np, name)(0.7)
    np.testing.assert_allclose(function(0.7), expected, rtol=1e-15)
    np.testing.assert_allclose(function(np.array([0.7])), [expected], rtol=1e-15)
    found = function(jnp.array(0.7))
    assert isinstance(found, jax.Array)
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    if hasattr(Tensor, name):
        np.testing.assert_allclose(function(Tensor(0.7)).data, expected, rtol=1e-14)


@pytest.mark.parametrize("name", [*NAMES, "sigmoid"])
def test_derivatives_of_duals_are_those_of_a_complex_step(name):
    function, h = getattr(elementary, name), 1e-30
    slope = np.imag(function(np.complex128(complex(0.7, h)))) / h
    np.testing.assert_allclose(function(Dual(0.7, 1.0)).tangent, slope, rtol=1e-13)


def test_sigmoid_overflows_nowhere():
    z = np.array([-1000.0, -30.0, 0.0, 2.5, 1000.0])
    with np.errstate(all="raise"):
        np.testing.assert_allclose(elementary.sigmoid(z), expit(z), rtol=1e-12, atol=1e-15)
    off = complex(0.3, 0.4)
    np.testing.assert_allclose(elementary.sigmoid(np.complex128(off)), 1 / (1 + cmath.exp(-off)), rtol=1e-14)


def test_what_is_no_number_is_refused_in_a_sentence():
    with pytest.raises(TypeError, match="exp takes a number or an array, got str"):
        elementary.exp("a")
