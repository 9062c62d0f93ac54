import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression as Reference

from corollary.data import book_perfect_data, logistic_data, softmax_data
from corollary.foundations import cross_entropy
from corollary.linear import (
    SoftmaxRegression,
    fit_newton,
    fit_softmax,
    one_hot,
    softmax,
    softmax_gradient,
    softmax_hessian,
    softmax_loss,
    softmax_smoothness,
)

THETA = np.array([[1.0, 1.0, 0.5], [0.5, 0.0, 0.0], [-0.5, -1.0, -1.0]])


@pytest.fixture
def data():
    return softmax_data(jnp.asarray(THETA), 300, key=jax.random.key(0))


def test_loss_is_the_cross_entropy_of_the_model(data):
    p = softmax(data.x @ THETA[:, :-1].T + THETA[:, -1])
    expected = cross_entropy(one_hot(data.y, 3), p).mean()
    np.testing.assert_allclose(softmax_loss(THETA, data.x, data.y), expected, rtol=1e-13)
    np.testing.assert_allclose(softmax_loss(THETA, data.x, one_hot(data.y, 3)), expected, rtol=1e-13)
    np.testing.assert_allclose(softmax_loss(THETA, data.x, data.y, 0.2) - expected, 0.2 * np.sum(THETA**2), rtol=1e-12)


@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_derivatives(data, ridge):
    theta = jnp.asarray(THETA)
    np.testing.assert_allclose(
        softmax_gradient(theta, data.x, data.y, ridge),
        jax.jit(jax.grad(softmax_loss))(theta, data.x, data.y, ridge), rtol=1e-11, atol=1e-14,
    )  # fmt: skip
    hessian = jax.jit(jax.hessian(softmax_loss))(theta, data.x, data.y, ridge).reshape(9, 9)
    np.testing.assert_allclose(softmax_hessian(theta, data.x, ridge), hessian, rtol=1e-10, atol=1e-13)


def test_hessian_has_a_kernel_of_dimension_d_plus_1_and_is_bounded(data):
    values = jnp.linalg.eigvalsh(softmax_hessian(THETA, data.x))
    assert jnp.all(jnp.abs(values[:3]) < 1e-15 * 9)
    assert values[3] > 1e-3
    assert values[-1] <= softmax_smoothness(data.x)


def test_fit_against_sklearn(data):
    fit = fit_softmax(data.x, data.y, 3)
    reference = Reference(C=np.inf, solver="lbfgs", tol=1e-10, max_iter=10_000).fit(data.x, data.y)
    theirs = np.concatenate([reference.coef_, reference.intercept_[:, None]], 1)
    assert fit.converged
    np.testing.assert_allclose(fit.theta, theirs - theirs.mean(0), atol=1e-4)
    assert fit.loss <= softmax_loss(theirs, data.x, data.y) + 1e-15
    assert fit.gradient_norm < 1e-14
    np.testing.assert_allclose(fit.theta.sum(0), 0, atol=1e-13)


def test_reference_class_and_ridge(data):
    free, pinned = fit_softmax(data.x, data.y, 3), fit_softmax(data.x, data.y, 3, reference=1)
    np.testing.assert_array_equal(pinned.theta[1], 0)
    np.testing.assert_allclose(pinned.theta, free.theta - free.theta[1], atol=1e-12)
    np.testing.assert_allclose(pinned.loss, free.loss, rtol=1e-13)
    ridged = fit_softmax(data.x, data.y, 3, penalty=0.05)
    assert ridged.converged
    np.testing.assert_allclose(softmax_gradient(ridged.theta, data.x, data.y, 0.05), 0, atol=1e-15)


def test_fit_from_any_start(data):
    scale = 10.0 ** jax.random.uniform(jax.random.key(1), (20, 1, 1), minval=-2, maxval=3)
    starts = scale * jax.random.normal(jax.random.key(2), (20, 3, 3))
    fits = jax.jit(jax.vmap(lambda s: fit_softmax(data.x, data.y, 3, start=s)))(starts)
    assert jnp.all(fits.converged)
    np.testing.assert_allclose(fits.theta, jnp.tile(fit_softmax(data.x, data.y, 3).theta, (20, 1, 1)), rtol=1e-9)


def test_two_classes_are_logistic_regression():
    x, y = logistic_data(jnp.array([1.0, -2.0, 0.5]), 200, key=jax.random.key(5))
    binary, two = fit_newton(x, y), fit_softmax(x, y, 2, reference=0)
    np.testing.assert_allclose(two.loss, binary.loss, rtol=1e-13)
    np.testing.assert_allclose(two.theta[1], binary.theta, rtol=1e-11)


def test_separable_and_missing_classes_are_not_fitted_silently(data):
    x, y = book_perfect_data()
    assert not fit_softmax(x, y, 2).converged
    assert not fit_softmax(data.x, data.y, 4).converged  # nobody has label 3: its bias falls for ever
    assert fit_softmax(data.x, data.y, 4, penalty=1e-3).converged
    assert not fit_softmax(data.x, plural(data.x), 3).converged


def plural(x):
    return jnp.argmax(x @ THETA[:, :-1].T + THETA[:, -1], axis=1)


def test_module():
    model = SoftmaxRegression.of(THETA)
    x = jax.random.normal(jax.random.key(0), (5, 2))
    np.testing.assert_allclose(jax.vmap(model)(x), softmax(x @ THETA[:, :-1].T + THETA[:, -1]), rtol=1e-14)
    np.testing.assert_array_equal(model.theta, THETA)
    assert SoftmaxRegression(2, 3, key=jax.random.key(0)).theta.shape == (3, 3)
