import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.foundations import (
    SIGMOID_SMOOTHNESS,
    lipschitz_lower_bound,
    lipschitz_upper_bound,
    network_lipschitz_bound,
    pair_slopes,
    quadratic_smoothness,
    smoothness_lower_bound,
)

RNG = np.random.default_rng(4)


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def test_pair_slopes():
    slopes = pair_slopes(lambda x: x**2, np.array([0.0, 1.0, 2.0]), np.array([1.0, 3.0, 2.0]))
    np.testing.assert_allclose(slopes, [1, 4, 0])


def test_lipschitz_bounds_enclose_the_constant():
    def f(x):
        return jnp.sin(3 * x)

    x, y = RNG.uniform(-2, 2, size=(2, 50))
    coarse, fine = lipschitz_lower_bound(f, x, y), lipschitz_lower_bound(f, x, y, rounds=20)
    assert coarse <= fine <= 3 + 1e-6
    assert fine > 2.9
    upper = [float(lipschitz_upper_bound(f, -2.0, 2.0, 9.0, cells)) for cells in (10, 1000)]
    assert upper[0] > upper[1] >= 3
    assert upper[1] == pytest.approx(3, rel=1e-2)
    box = lipschitz_upper_bound(lambda x: x @ jnp.array([3.0, 4.0]), -np.ones(2), np.ones(2), 0.0, 5)
    assert box == pytest.approx(5)


def test_network_bound_and_smoothness():
    w = [RNG.normal(size=(4, 3)), RNG.normal(size=(2, 4))]
    assert network_lipschitz_bound(w, 0.5) == pytest.approx(0.5 * np.linalg.norm(w[0], 2) * np.linalg.norm(w[1], 2))
    h = RNG.normal(size=(4, 4))
    h = h + h.T
    assert quadratic_smoothness(h) == pytest.approx(np.abs(np.linalg.eigvalsh(h)).max())
    x, y = RNG.normal(size=(2, 100, 4))
    assert smoothness_lower_bound(lambda x: x @ h @ x / 2, x, y) <= quadratic_smoothness(h) * (1 + 1e-12)
    grid = jnp.linspace(-4, 4, 2001)
    bend = jax.vmap(jax.grad(jax.grad(jax.nn.sigmoid)))(grid)
    assert jnp.abs(bend).max() == pytest.approx(SIGMOID_SMOOTHNESS, rel=1e-5)


def test_bad_input():
    with pytest.raises(TypeError, match="f must be a function of a point"):
        pair_slopes(1, np.ones(2), np.ones(2))
    with pytest.raises(ValueError, match="same number of points"):
        pair_slopes(jnp.sin, np.ones(2), np.ones(3))
    with pytest.raises(ValueError, match="low must be below high"):
        lipschitz_upper_bound(jnp.sin, 1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="both be numbers or both be vectors"):
        lipschitz_upper_bound(jnp.sin, 1.0, np.ones(2), 1.0)
    with pytest.raises(ValueError, match="at most 10 million"):
        lipschitz_upper_bound(jnp.sum, -np.ones(5), np.ones(5), 1.0)
    with pytest.raises(ValueError, match="smoothness must be zero or more"):
        lipschitz_upper_bound(jnp.sin, 0.0, 1.0, -1.0)
    with pytest.raises(ValueError, match="weights must be a sequence of at least one"):
        network_lipschitz_bound([])
    with pytest.raises(ValueError, match=r"weights\[1\] must have 4 columns"):
        network_lipschitz_bound([np.ones((4, 3)), np.ones((2, 3))])
