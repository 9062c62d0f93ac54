import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.foundations import (
    LeastSquares,
    MatrixFactorization,
    NonlinearLeastSquares,
    factorization_gradient,
    factorization_loss,
    fit_factorization,
)

RNG = np.random.default_rng(5)


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def test_least_squares():
    a, y, x = RNG.normal(size=(8, 3)), RNG.normal(size=8), RNG.normal(size=3)
    problem = LeastSquares(a, y)
    assert problem(x) == pytest.approx(np.sum((a @ x - y) ** 2))
    np.testing.assert_allclose(problem.gradient(x), jax.grad(problem)(x), rtol=1e-11)
    np.testing.assert_allclose(problem.hessian, jax.hessian(problem)(x), rtol=1e-11)
    np.testing.assert_allclose(problem.minimiser, np.linalg.lstsq(a, y)[0], rtol=1e-10)
    with pytest.raises(ValueError, match="y must have shape"):
        LeastSquares(a, y[:3])
    with pytest.raises(ValueError, match="x must have shape"):
        problem(y)


def test_matrix_factorization():
    r = RNG.normal(size=(5, 4))
    model = MatrixFactorization(5, 4, 2, key=jax.random.key(0))
    assert model((1, 2)) == pytest.approx(float(model.product[1, 2]))
    slope, auto = factorization_gradient(model, r), jax.grad(factorization_loss)(model, r)
    np.testing.assert_allclose(slope.left, auto.left, rtol=1e-10)
    np.testing.assert_allclose(slope.right, auto.right, rtol=1e-10)
    fit = fit_factorization(model, r, 0.05, 3000)
    s = np.linalg.svd(r, compute_uv=False)
    assert factorization_loss(fit.model, r) == pytest.approx(np.sum(s[2:] ** 2) / 2, rel=1e-6)
    same = MatrixFactorization.of(model.left, model.right)
    np.testing.assert_allclose(same.product, model.product)
    with pytest.raises(TypeError, match="model must be a MatrixFactorization"):
        factorization_loss(r, r)
    with pytest.raises(ValueError, match="r must have shape"):
        fit_factorization(model, r.T, 0.1, 3)
    with pytest.raises(ValueError, match="right must have shape"):
        MatrixFactorization.of(model.left, model.left)


def test_nonlinear_least_squares():
    x, y, w = RNG.normal(size=(9, 3)), RNG.normal(size=9), RNG.normal(size=3)
    problem = NonlinearLeastSquares(x, y, jnp.tanh)
    np.testing.assert_allclose(problem.gradient(w), jax.grad(problem)(w), rtol=1e-10)
    np.testing.assert_allclose(problem.hessian(w), jax.hessian(problem)(w), rtol=1e-10, atol=1e-14)
    perfect = NonlinearLeastSquares(x, np.tanh(x @ w), jnp.tanh)
    np.testing.assert_allclose(perfect.gauss_newton(w), perfect.hessian(w), rtol=1e-10, atol=1e-14)
    with pytest.raises(TypeError, match="link must be a function"):
        NonlinearLeastSquares(x, y, 1)
    with pytest.raises(ValueError, match="w must have shape"):
        problem(y)
