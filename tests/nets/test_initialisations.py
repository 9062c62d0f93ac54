import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary import nets

KEY = jax.random.key(1)
SHAPE = (400, 300)  # fan-out, fan-in

VARIANCES = {
    "uniform_fan_in": 1 / (3 * 300),
    "glorot_normal": 2 / 700,
    "glorot_uniform": 2 / 700,
    "he_normal": 2 / 300,
    "he_uniform": 2 / 300,
    "lecun_normal": 1 / 300,
    "standard_normal": 1.0,
}


@pytest.mark.parametrize("name", VARIANCES)
def test_variances(name):
    w = np.asarray(getattr(nets, name)(KEY, SHAPE, jnp.float64))
    # 120,000 entries: the variance of a normal sample is known to sqrt(2/120000) = 0.4 %, five of that
    np.testing.assert_allclose(w.var(), VARIANCES[name], rtol=0.021)
    assert abs(w.mean()) < 5 * (VARIANCES[name] / w.size) ** 0.5


def test_supports_of_the_uniform_ones():
    w = np.asarray(nets.uniform_fan_in(KEY, SHAPE, jnp.float64))
    assert 0.999 * 300**-0.5 < np.abs(w).max() <= 300**-0.5
    w = np.asarray(nets.glorot_uniform(KEY, SHAPE, jnp.float64))
    assert 0.999 * (6 / 700) ** 0.5 < np.abs(w).max() <= (6 / 700) ** 0.5


def test_zero_orthogonal_and_normal():
    assert not np.asarray(nets.zeros(KEY, SHAPE, jnp.float64)).any()
    w = np.asarray(nets.orthogonal(KEY, SHAPE, jnp.float64))
    np.testing.assert_allclose(w.T @ w, np.eye(300), atol=1e-12)
    np.testing.assert_allclose(np.asarray(nets.normal(0.1)(KEY, SHAPE, jnp.float64)).std(), 0.1, rtol=0.011)


def test_bad_input():
    with pytest.raises(ValueError, match="std must be positive"):
        nets.normal(0.0)
