"""The single neuron, against numerical integration, finite differences and scikit-learn's cross-entropy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import dblquad
from scipy.optimize import approx_fprime
from sklearn.metrics import log_loss

from corollary.landscape import GLM, glm_correlation, glm_gradient, glm_loss, glm_tron, matching_loss, span_quadrature
from corollary.nets import identity, leaky_relu, logistic, relu, tanh

RNG = np.random.default_rng(0)
X, W, V = RNG.normal(size=(50, 3)), np.array([0.5, -0.3, 0.2]), np.array([0.1, 0.4, -0.6])


def test_population_loss_is_the_integral():
    x, weights = span_quadrature(W, V)
    got = glm_loss(logistic, W, x, logistic(x @ V), weights)
    # x along V and along what of W is orthogonal to it
    length = np.linalg.norm(V)
    along = W @ V / length
    across = np.sqrt(W @ W - along**2)

    def integrand(b, a):
        gap = 1 / (1 + np.exp(-along * a - across * b)) - 1 / (1 + np.exp(-length * a))
        return 0.5 * gap**2 * np.exp(-(a**2 + b**2) / 2) / (2 * np.pi)

    expected, _ = dblquad(integrand, -9, 9, -9, 9, epsabs=1e-13)
    assert got == pytest.approx(expected, rel=1e-9)


def test_quadrature_has_the_moments_of_the_law():
    root = RNG.normal(size=(3, 3))
    covariance = root @ root.T
    x, weights = span_quadrature(W, V, 20, covariance)
    assert weights.sum() == pytest.approx(1.0)
    for p in (W, V):
        np.testing.assert_allclose(weights @ x, 0, atol=1e-12)
        # E (p·x) x = Σ p for p in the plane
        np.testing.assert_allclose((weights * (x @ p)) @ x, covariance @ p, rtol=1e-10)
    assert weights @ (x @ W) ** 4 == pytest.approx(3 * (W @ covariance @ W) ** 2, rel=1e-10)
    # parallel, nearly parallel, and a zero vector: the plane is a line or a thin one
    for w in (2 * V, -V / 3, V + 1e-9 * W, np.zeros(3)):
        x, weights = span_quadrature(w, V, 20)
        assert weights @ (x @ V) ** 2 == pytest.approx(V @ V, rel=1e-12)
        assert weights @ (x @ w) ** 2 == pytest.approx(w @ w, rel=1e-12)


@pytest.mark.parametrize("activation", [logistic, tanh, leaky_relu(0.2)])
def test_gradient_is_the_derivative(activation):
    y = RNG.normal(size=50)
    expected = approx_fprime(W, lambda w: float(glm_loss(activation, w, X, y)), 1e-7)
    np.testing.assert_allclose(glm_gradient(activation, W, X, y), expected, atol=1e-6)


@pytest.mark.parametrize("activation", [logistic, tanh, leaky_relu(0.2), relu, identity])
def test_correlation_is_the_inner_product(activation):
    inner = glm_gradient(activation, W, X, activation(X @ V)) @ (W - V)
    assert glm_correlation(activation, W, V, X) == pytest.approx(float(inner), abs=1e-14)
    assert glm_correlation(activation, V, V, X) == 0


def test_matching_loss_of_logistic_is_cross_entropy():
    y = (RNG.uniform(size=50) < 0.5).astype(float)
    expected = log_loss(y, 1 / (1 + np.exp(-X @ W)))
    assert matching_loss(jax.nn.softplus, W, X, y) == pytest.approx(expected, rel=1e-12)


def test_tron_descends_the_matching_loss():
    y = RNG.uniform(size=50)
    path = glm_tron(logistic, X, y, W, step=0.5, steps=3)
    w = W
    for k in range(4):
        np.testing.assert_allclose(path[k], w, rtol=1e-10)
        w = w - 0.5 * jax.grad(lambda w: matching_loss(jax.nn.softplus, w, X, y))(w)


def test_model_samples_what_it_says():
    model = GLM(tanh, V, 0.1)
    y = model.sample(np.repeat(X[:1], 20000, 0), key=jax.random.key(0))
    assert y.mean() == pytest.approx(float(np.tanh(X[0] @ V)), abs=6 * 0.1 / np.sqrt(20000))
    assert y.std() == pytest.approx(0.1, rel=0.05)
    np.testing.assert_allclose(GLM(tanh, V).sample(X, key=jax.random.key(0)), np.tanh(X @ V), rtol=1e-12)


Y = np.zeros(50)


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: GLM(jnp.tanh, V), TypeError, "activation must be an Activation"),
        (lambda: GLM(tanh, V, -1.0), ValueError, "noise must be zero or more"),
        (lambda: GLM(tanh, V).mean(np.ones((2, 4))), ValueError, "x must have shape"),
        (lambda: span_quadrature(W, np.ones(2)), ValueError, "w_star must have shape"),
        (lambda: span_quadrature(W, V, 1), ValueError, "nodes must be from 2 to 200"),
        (lambda: span_quadrature(W, V, 20, np.eye(2)), ValueError, "covariance must have shape"),
        (lambda: glm_loss(np.tanh, W, X, Y), TypeError, "activation must be an Activation"),
        (lambda: glm_loss(tanh, W, X, Y[:3]), ValueError, "y must have shape"),
        (lambda: glm_gradient(tanh, W[:2], X, Y), ValueError, "w must have shape"),
        (lambda: glm_gradient(tanh, W, X, Y, -np.ones(50)), ValueError, "weights must be zero or more"),
        (lambda: glm_correlation(tanh, W, V[:2], X), ValueError, "w_star must have shape"),
        (lambda: matching_loss(3, W, X, Y), TypeError, "integral must be a function of a number"),
        (lambda: glm_tron(tanh, X, Y, W, step=0.0, steps=3), ValueError, "step must be positive"),
        (lambda: glm_tron(tanh, X, Y, W, step=1.0, steps=0), ValueError, "steps must be at least 1"),
        (lambda: glm_tron(tanh, X, Y, W[:2], step=1.0, steps=3), ValueError, "start must have shape"),
    ],
)
def test_bad_input(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call()
