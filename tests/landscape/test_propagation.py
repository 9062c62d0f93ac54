"""Forward and backward norms of networks of many kinds, against plain loops and automatic differentiation."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary import nets
from corollary.landscape import depth_factor, he_variance, layers_of, signal_propagation, xavier_variance

KEY = jax.random.key(0)
ONE = ([[1.0]], [[1.0]])


def _half_square(out, y):
    return 0.5 * jnp.sum((out - y) ** 2)


def _check(network, x, y, loss=_half_square):
    """Layer by layer with one example at a time and `jax.grad` of what comes after the layer."""
    found = signal_propagation(network, loss, (x, y))
    layers = layers_of(network)
    forward, backward = np.zeros(len(layers) + 1), np.zeros(len(layers) + 1)

    def rest(s, b, k):
        for layer in layers[k:]:
            s = layer(s)
        return loss(s, b)

    slope = jax.jit(jax.grad(rest), static_argnums=2)
    for a, b in zip(x, y, strict=True):
        state = jnp.asarray(a)
        for k in range(len(layers) + 1):
            forward[k] += np.mean(np.asarray(state) ** 2) / len(x)
            backward[k] += np.sum(np.asarray(slope(state, b, k)) ** 2) / len(x)
            state = layers[k](state) if k < len(layers) else state
    np.testing.assert_allclose(found.forward, forward, rtol=1e-11)
    np.testing.assert_allclose(found.backward, backward, rtol=1e-11)
    return found


def test_mlp_and_its_parameter_gradients():
    network = nets.MLP((3, 5, 4, 2), nets.tanh, key=KEY)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(7, 3)), rng.normal(size=(7, 2))
    found = _check(network, x, y)
    grads = eqx.filter_grad(lambda n: jnp.mean(jax.vmap(lambda a, b: _half_square(b, n(a)))(x, y)))(network)
    for norm, layer in zip(found.gradient, grads.layers, strict=True):
        np.testing.assert_allclose(norm, np.sqrt(sum(np.sum(g**2) for g in jax.tree.leaves(layer))), rtol=1e-12)


@pytest.mark.parametrize(("depth", "scan"), [(0, False), (1, False), (3, False), (3, True)])
def test_equinox_mlp(depth, scan):
    network = eqx.nn.MLP(3, 2, 6, depth, jnp.tanh, jax.nn.softplus, scan=scan, key=KEY)
    rng = np.random.default_rng(1)
    found = _check(network, rng.normal(size=(4, 3)), rng.normal(size=(4, 2)))
    assert found.forward.shape == (depth + 2,)


def test_equinox_mlp_with_learnt_activations():
    network = eqx.nn.MLP(3, 2, 6, 2, eqx.nn.PReLU(0.3), key=KEY)
    rng = np.random.default_rng(2)
    found = _check(network, rng.normal(size=(4, 3)), rng.normal(size=(4, 2)))
    assert found.gradient.shape == (3,)


def test_sequential_with_convolutions():
    a, b = jax.random.split(KEY)
    network = eqx.nn.Sequential(
        [
            eqx.nn.Conv2d(1, 3, 3, key=a),
            eqx.nn.Lambda(jax.nn.relu),
            eqx.nn.Lambda(jnp.ravel),
            eqx.nn.Linear(3 * 16, 2, key=b),
        ]
    )
    rng = np.random.default_rng(3)
    found = _check(network, rng.normal(size=(3, 1, 6, 6)), rng.normal(size=(3, 2)))
    assert found.gradient[1] == 0
    assert found.gradient[0] > 0


def test_stacks_residuals_and_plain_functions():
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(4, 3)), rng.normal(size=(4, 3))
    stack = nets.Stack(lambda k: nets.ResidualLayer(3, key=k), 4, key=KEY)
    assert _check(stack, x, y).forward.shape == (5,)
    _check(nets.DeepLinearNetwork((3, 4, 3), key=KEY), x, y)
    m = rng.normal(size=(3, 3))
    _check([lambda v: m @ v, jnp.sin, lambda v: v**2], x, y)
    # classes as labels, and targets that do not count
    labels = np.array([0, 2, 1, 1])
    _check([jnp.sin], x, labels, lambda out, y: -jax.nn.log_softmax(out)[y])
    plain = signal_propagation([jnp.sin], lambda out, _: jnp.sum(out), (x, x))
    np.testing.assert_allclose(plain.backward, [np.mean(np.sum(np.cos(x) ** 2, 1)), 3.0])


def test_under_jit_and_in_single_precision():
    network = nets.MLP((3, 4, 2), nets.tanh, key=KEY)
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(4, 3)), rng.normal(size=(4, 2))
    direct = signal_propagation(network, "squared", (x, y))
    jitted = eqx.filter_jit(lambda n, x: signal_propagation(n, _half_square, (x, y)))(network, jnp.asarray(x))
    np.testing.assert_allclose(direct.backward, jitted.backward, rtol=1e-12)
    small = jax.tree.map(lambda a: a.astype(jnp.float32) if eqx.is_inexact_array(a) else a, network)
    single = x.astype(np.float32), y.astype(np.float32)
    assert signal_propagation(small, "squared", single).forward.dtype == jnp.float32


def test_a_module_that_does_more_than_its_layers_is_refused():
    class Skips(eqx.Module):
        layers: tuple

        def __call__(self, x):
            return x + self.layers[0](x)

    with pytest.raises(ValueError, match="network must apply its layers one after the other, but Skips"):
        signal_propagation(Skips((jnp.sin,)), "squared", (np.ones((2, 3)), np.ones((2, 3))))


def test_scalings():
    assert xavier_variance(30, 10) == 0.05
    assert xavier_variance(7, 7) == pytest.approx(1 / 7)
    assert he_variance(30, 10) == pytest.approx(1 / 15)
    assert he_variance(30, 10, "fan_out") == 0.2
    draws = nets.glorot_normal(KEY, (200, 300), jnp.float64)
    assert float(draws.var()) == pytest.approx(xavier_variance(300, 200), rel=0.03)
    draws = nets.he_normal(KEY, (200, 300), jnp.float64)
    assert float(draws.var()) == pytest.approx(he_variance(300, 200), rel=0.03)


def test_depth_factor():
    np.testing.assert_allclose(depth_factor(3.0 * 0.7 ** np.arange(10)), 0.7)
    rough = 0.7 ** np.arange(50) * np.exp(0.1 * np.random.default_rng(0).normal(size=50))
    assert depth_factor(rough) == pytest.approx(0.7, rel=0.01)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: signal_propagation([jnp.sin], 3, ([[1.0]], [[1.0]])), "loss must be a name, a function of one output"),
        (lambda: signal_propagation([jnp.sin], "squared", (1.0, 1.0)), "one common first axis"),
        (lambda: signal_propagation([jnp.sin], "squared", (np.ones((2, 1)), [1.0])), "one common first axis"),
        (lambda: signal_propagation([], "squared", ONE), "network must be a sequence of functions"),
        (lambda: signal_propagation(jnp.sin, "squared", ONE), "network must be a sequence of functions"),
        (lambda: signal_propagation([lambda x: (x, x)], "squared", ONE), "every layer must return one array"),
        (lambda: depth_factor([1.0, 0.0]), "profile must be positive"),
        (lambda: depth_factor([1.0]), "profile must have at least two entries"),
        (lambda: xavier_variance(0, 1), "fan_in must be at least 1"),
        (lambda: he_variance(1, 1, "average"), "mode must be one of"),
    ],
)
def test_sentences(call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call()
