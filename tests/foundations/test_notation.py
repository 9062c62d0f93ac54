import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.foundations import argmin_set, entrywise, growth_ratio, hadamard, indicator


def test_indicator_hadamard_entrywise():
    assert indicator(lambda z: z > 0, jnp.array([-1.0, 2.0])).tolist() == [0, 1]
    assert hadamard(np.array([1.0, 2.0]), np.array([3.0, 4.0])).tolist() == [3, 8]
    x = np.array([[0.0, 1.0], [2.0, 3.0]])
    np.testing.assert_allclose(entrywise(jnp.exp, x), np.exp(x), rtol=1e-6)


def test_argmin_set_finds_all():
    z = jnp.linspace(-2, 2, 9)
    found = jax.jit(lambda z: argmin_set(lambda z: (z**2 - 1) ** 2, z))(z)
    assert z[found].tolist() == [-1, 1]
    assert argmin_set(lambda z: 0.0 * z, z).all()
    assert argmin_set(jnp.abs, z, tolerance=0.5).sum() == 3


def test_growth_ratio_of_polynomials():
    n = np.array([[1.0, 10.0], [100.0, 1000.0]])
    np.testing.assert_allclose(growth_ratio(lambda n: -(n**2), lambda n: n**3, n), 1 / n)


def test_bad_input():
    with pytest.raises(TypeError, match="f must be a function"):
        growth_ratio(1, jnp.abs, np.ones(2))
    with pytest.raises(ValueError, match="must be positive"):
        growth_ratio(jnp.abs, lambda n: -n, np.ones(2))
    with pytest.raises(ValueError, match="x and y must have the same shape"):
        hadamard(np.ones(2), np.ones(3))
    with pytest.raises(TypeError, match="contains must be a function"):
        indicator(1, 2)
    with pytest.raises(TypeError, match="phi must be a function"):
        entrywise(1, np.ones(2))
    with pytest.raises(TypeError, match="g must be a function"):
        argmin_set(1, np.ones(2))
    with pytest.raises(ValueError, match="at least one point"):
        argmin_set(jnp.abs, np.zeros((0, 2)))
    with pytest.raises(ValueError, match="g must return a number"):
        argmin_set(lambda z: z, np.ones((2, 3)))
    with pytest.raises(ValueError, match="tolerance must be zero or more"):
        argmin_set(jnp.abs, np.ones(2), tolerance=-1.0)
