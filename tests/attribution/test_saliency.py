import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate
from scipy.stats import norm

from corollary.attribution import gradient_input, integrated_gradients, saliency, smoothed_saliency

X = np.random.RandomState(0).randn(3, 4)


def mlp(activation):
    return eqx.nn.MLP(4, 3, 6, 2, activation=activation, key=jax.random.key(0), dtype=jnp.float64)


@pytest.fixture
def network():
    return mlp(jnp.tanh)


def differences(network, x, chosen, step=1e-6):
    moves = step * np.eye(4)
    f = lambda one: float(network(jnp.asarray(one))[chosen])  # noqa: E731
    return np.array([(f(x + move) - f(x - move)) / (2 * step) for move in moves])


def test_gradients_are_those_of_differences(network):
    chosen = np.asarray(jax.vmap(network)(jnp.asarray(X))).argmax(1)
    slopes = np.stack([differences(network, x, c) for x, c in zip(X, chosen, strict=True)])
    np.testing.assert_allclose(saliency(network, X, batch_size=2), np.abs(slopes), atol=1e-8)
    np.testing.assert_allclose(gradient_input(network, X), X * slopes, atol=1e-8)
    second = np.stack([differences(network, x, 2) for x in X])
    np.testing.assert_allclose(saliency(network, X, output=2), np.abs(second), atol=1e-8)
    np.testing.assert_allclose(saliency(network, X, output=[2, 2, 2]), np.abs(second), atol=1e-8)


def test_integrals_are_those_of_quadrature(network):
    baseline = np.array([0.5, 0.0, -1.0, 0.3])
    found = integrated_gradients(network, X, baseline, output=1, tolerance=1e-10)
    slope = jax.jit(jax.grad(lambda one: network(one)[1]))
    for x, values in zip(X, found.values, strict=True):
        wanted = integrate.quad_vec(lambda t, x=x: np.asarray(slope(baseline + t * (x - baseline))), 0, 1)[0]
        np.testing.assert_allclose(values, (x - baseline) * wanted, atol=1e-9)
    outputs = jax.vmap(network)(jnp.asarray(X))[:, 1] - network(jnp.asarray(baseline))[1]
    np.testing.assert_allclose(np.abs(found.values.sum(1) - outputs), found.gap, atol=1e-14)


@pytest.mark.parametrize("tolerance", [1e-3, 1e-9])
def test_kinks_are_closed_in_on(tolerance):
    relu = mlp(jax.nn.relu)
    found = integrated_gradients(relu, 5 * X, -3 * np.ones(4), output=0, tolerance=tolerance)
    outputs = np.asarray(jax.vmap(relu)(5 * jnp.asarray(X)))[:, 0]
    change = np.abs(outputs - np.asarray(relu(-3 * jnp.ones(4)))[0])
    path = np.linspace(0, 1, 1001)[:, None, None]
    along = np.asarray(jax.vmap(jax.vmap(relu))(jnp.asarray((1 - path) * -3 + path * 5 * X)))[..., 0]
    largest = np.abs(along - along[0]).max(0)
    assert (found.gap <= tolerance * largest + 1e-13).all()
    assert change.max() > 0
    assert (found.nodes < 512 * 4).all()


def test_says_so_where_it_does_not_add_up():
    def jump(one):
        return jnp.where(one[0] > 1 / 3, 1.0, 0.0) + one  # the gradient does not see the jump

    found = integrated_gradients(jump, np.ones((1, 2)), np.zeros(2), output=0, panels=16)
    np.testing.assert_allclose(found.gap, 1.0)
    assert found.nodes == 64


def test_a_smoothed_unit_has_the_slope_of_its_smoothing():
    w, scale = np.array([1.0, -2.0, 0.5, 0.0]), 0.7
    found = smoothed_saliency(
        lambda one: jax.nn.relu(jnp.asarray(w) @ one)[None], X, scale, samples=40_000, key=jax.random.key(1)
    )
    share = norm.cdf(X @ w / (scale * np.linalg.norm(w)))
    # five standard errors of a share, times the weight
    np.testing.assert_allclose(found, np.abs(w) * share[:, None], atol=5 * 0.5 / 200 * 2)


def test_half_of_the_digits():
    network = eqx.nn.MLP(4, 3, 6, 2, key=jax.random.key(0), dtype=jnp.float32)
    found = integrated_gradients(network, X.astype(np.float32), np.zeros(4, np.float32))
    assert found.values.dtype == jnp.float32
    assert (found.gap < 1e-3).all()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda network: saliency(network, np.ones((2, 4), int)), "there is no gradient, use shapley_values"),
        (lambda network: saliency(network, X, output=3), "output must hold labels from 0 to 2"),
        (lambda network: saliency(network, X, output=[0, 1]), "output must have shape"),
        (lambda network: saliency(network, np.full((1, 4), np.inf)), "x must be finite"),
        (lambda network: integrated_gradients(network, X, np.zeros(3)), "baseline must have the shape"),
        (lambda network: integrated_gradients(network, X, np.zeros(4), tolerance=0.0), "tolerance must be positive"),
        (lambda network: smoothed_saliency(network, X, -1.0, key=jax.random.key(0)), "scale must be positive"),
    ],
)
def test_sentences(network, call, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        call(network)
