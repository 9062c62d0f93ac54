import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets.recurrent import (
    LRU,
    LRULayer,
    lru_eigenvalues,
    lru_initialisation,
    nu_from_radius,
    unroll,
    unroll_linear,
)

KEY = jax.random.key(5)


def test_eigenvalues_are_inside_of_the_circle_and_come_back():
    nu, phi = jnp.array([-30.0, -1.0, 0.0, 3.0]), jnp.array([0.0, 1.0, 2.0, 6.0])
    values = lru_eigenvalues(nu, phi)
    np.testing.assert_allclose(values, np.exp(-np.exp(nu) + 1j * phi), rtol=1e-13)
    assert float(jnp.abs(values).max()) < 1
    radii = jnp.array([1e-6, 0.5, 1 - 1e-6])
    np.testing.assert_allclose(jnp.abs(lru_eigenvalues(nu_from_radius(radii), 0.0)), radii, rtol=1e-12)
    with pytest.raises(ValueError, match=r"radius must be in \(0, 1\)"):
        nu_from_radius(1.0)


def test_initialisation_has_its_radii_and_law():
    nu, phi = lru_initialisation(4000, 0.5, 0.9, key=KEY, law="area", phase=1.0)
    radius = np.exp(-np.exp(np.asarray(nu)))
    assert 0.5 <= radius.min() < radius.max() <= 0.9
    assert 0 <= phi.min() < phi.max() <= 1
    # uniform squares: mean (0.25 + 0.81) / 2 with standard error 0.56 / sqrt(12 * 4000)
    assert abs(np.mean(radius**2) - 0.53) < 5 * 0.56 / np.sqrt(12 * 4000)
    assert np.isfinite(lru_initialisation(100, key=KEY)[0]).all()
    with pytest.raises(ValueError, match="law must be one of 'radius', 'area', got 'ring'."):
        lru_initialisation(3, key=KEY, law="ring")
    with pytest.raises(ValueError, match=r"high must be in \[0, 1\]"):
        lru_initialisation(3, 0.1, 1.1, key=KEY)


def test_lru_in_parallel_and_step_by_step():
    cell, xs = LRU(2, 3, key=KEY), jax.random.normal(KEY, (7, 2))
    states = unroll(cell, xs)
    np.testing.assert_allclose(unroll_linear(cell, xs), states, rtol=1e-12)
    layer = LRULayer(2, 3, 4, jnp.tanh, key=KEY)
    weight = layer.weight[0] + 1j * layer.weight[1]
    expected = np.tanh((unroll(layer.cell, xs) @ weight.T).real + xs @ layer.skip.T)
    np.testing.assert_allclose(layer(xs), expected, rtol=1e-12)
    assert LRULayer(2, 3, 4, key=KEY)(xs).shape == (7, 4)
    with pytest.raises(TypeError, match="readout must be a function of one step's features, got int."):
        LRULayer(2, 3, 4, 5, key=KEY)
