import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary import nets
from corollary.nets import AffineUnit, FullyConnected, LinearUnit, RidgeUnit, ThresholdUnit

KEY = jax.random.key(0)
X = np.random.default_rng(0).normal(size=(7, 3))


def test_units():
    linear, affine, ridge = LinearUnit(3, key=KEY), AffineUnit(3, key=KEY), RidgeUnit(3, nets.tanh, key=KEY)
    np.testing.assert_allclose(jax.vmap(linear)(X), X @ np.asarray(linear.weight))
    np.testing.assert_allclose(jax.vmap(affine)(X), X @ np.asarray(affine.weight) + np.asarray(affine.bias))
    np.testing.assert_allclose(jax.vmap(ridge)(X), np.tanh(X @ np.asarray(ridge.weight)))
    for kind, values in {"heaviside": {0.0, 1.0}, "sign": {-1.0, 1.0}}.items():
        unit = ThresholdUnit(3, kind, key=KEY)
        out = np.asarray(jax.vmap(unit)(X))
        assert set(out.tolist()) == values
        np.testing.assert_array_equal(out > 0, X @ np.asarray(unit.weight) >= 0)


@pytest.mark.parametrize("activation", [nets.identity, nets.relu, jnp.tanh])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("scaling", ["standard", "ntk"])
def test_fully_connected(activation, bias, scaling):
    layer = FullyConnected(3, 5, activation, key=KEY, bias=bias, scaling=scaling, initialisation=nets.standard_normal)
    w = np.asarray(layer.weight) / (3**0.5 if scaling == "ntk" else 1)
    b = np.asarray(layer.bias) if bias else 0
    np.testing.assert_allclose(jax.vmap(layer)(X), activation(X @ w.T + b), rtol=1e-12)
    np.testing.assert_allclose(layer.matrix, w)


def test_bias_follows_the_fan_in():
    layer = FullyConnected(400, 1000, key=KEY)
    assert layer.bias.shape == (1000,)
    assert 0.99 / 20 < np.abs(np.asarray(layer.bias)).max() <= 1 / 20
    assert not np.asarray(FullyConnected(4, 5, key=KEY, bias_initialisation=nets.zeros).bias).any()


def test_of():
    w, b = np.arange(6.0).reshape(2, 3), np.ones(2)
    np.testing.assert_allclose(FullyConnected.of(w, b, nets.relu)(X[0]), np.maximum(w @ X[0] + 1, 0))
    assert FullyConnected.of(w).bias is None
    np.testing.assert_allclose(FullyConnected.of(w, None, scaling="ntk")(X[0]), w @ X[0] / 3**0.5)


def test_jit_vmap_grad():
    layers = jax.vmap(lambda k: FullyConnected(3, 2, nets.tanh, key=k))(jax.random.split(KEY, 4))
    assert layers.weight.shape == (4, 2, 3)
    slope = jax.jit(jax.grad(lambda l, x: l(x).sum()))(FullyConnected(3, 2, nets.tanh, key=KEY), X[0])
    assert slope.weight.shape == (2, 3)


def test_bad_input():
    with pytest.raises(TypeError, match="inputs must be an integer"):
        LinearUnit(2.0, key=KEY)
    with pytest.raises(ValueError, match="inputs must be at least 1"):
        AffineUnit(0, key=KEY)
    with pytest.raises(TypeError, match="activation must be a function"):
        RidgeUnit(2, "tanh", key=KEY)
    with pytest.raises(ValueError, match="kind must be one of 'heaviside', 'sign'"):
        ThresholdUnit(2, "step", key=KEY)
    with pytest.raises(TypeError, match="initialisation must be a function"):
        FullyConnected(2, 2, key=KEY, initialisation=1.0)
    with pytest.raises(ValueError, match="scaling must be one of 'standard', 'ntk'"):
        FullyConnected(2, 2, key=KEY, scaling="mup")
    with pytest.raises(ValueError, match=r"x must have shape \(3,\), got \(7, 3\)"):
        FullyConnected(3, 2, key=KEY)(X)
    with pytest.raises(ValueError, match=r"bias must have shape \(m,\) with m = 2"):
        FullyConnected.of(np.ones((2, 3)), np.ones(3))
