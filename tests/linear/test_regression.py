import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.linear_model import LinearRegression as Reference

from corollary.data import book_linear_features
from corollary.linear import (
    LinearRegression,
    contraction_factor,
    critical_step,
    descent_path,
    fit_least_squares,
    moment_eigenvalues,
    moment_matrix,
    moments,
    ols_1d,
    safe_step,
    squared_error,
    squared_gradient,
    squared_loss,
    squared_loss_by_moments,
    squared_point_gradients,
)
from corollary.optimization import gradient_descent

RNG = np.random.default_rng(0)
X = np.exp(RNG.normal(size=30))
Y = 1.5 * X - 2 + RNG.normal(size=30)
THETA = np.array([0.3, 0.7])
LAWS = {"normal": RNG.normal, "uniform": RNG.uniform, "lognormal": RNG.lognormal, "cauchy": RNG.standard_cauchy}


def test_moments():
    x, y = np.asarray(X), np.asarray(Y)
    np.testing.assert_allclose(moments(X, Y), [x.mean(), y.mean(), (x**2).mean(), (x * y).mean(), (y**2).mean()])


def test_loss_by_sum_and_by_moments():
    by_hand = np.mean((np.asarray(Y) - 0.3 * np.asarray(X) - 0.7) ** 2)
    np.testing.assert_allclose(squared_loss(THETA, X, Y), by_hand, rtol=1e-13)
    np.testing.assert_allclose(squared_loss_by_moments(THETA, moments(X, Y)), by_hand, rtol=1e-12)


def test_squared_error_of_a_vector_is_its_squared_norm():
    assert squared_error(jnp.array([1.0, 2.0]), jnp.array([4.0, 6.0])) == 25
    assert squared_error(1.0, 4.0) == 9


def test_gradient_against_autodiff_points_and_differences():
    gradient = squared_gradient(THETA, X, Y)
    np.testing.assert_allclose(gradient, jax.jit(jax.grad(squared_loss))(jnp.asarray(THETA), X, Y), rtol=1e-12)
    np.testing.assert_allclose(gradient, squared_point_gradients(THETA, X, Y).mean(0), rtol=1e-12)
    h = 1e-6
    central = [(squared_loss(THETA + h * e, X, Y) - squared_loss(THETA - h * e, X, Y)) / (2 * h) for e in jnp.eye(2)]
    np.testing.assert_allclose(gradient, central, rtol=1e-7)
    np.testing.assert_allclose(
        jax.jit(jax.hessian(squared_loss))(jnp.asarray(THETA), X, Y), 2 * moment_matrix(X), rtol=1e-12
    )


@pytest.mark.parametrize("n", [1, 2, 7, 50])
def test_eigenvalues_and_their_bounds(n):
    x = np.concatenate([3 * draw(size=(60, n)) + 1 for draw in LAWS.values()])
    ours = jax.vmap(moment_eigenvalues)(x)
    reference = np.linalg.eigvalsh(jax.vmap(moment_matrix)(x))
    # eigvalsh knows the small eigenvalue only up to the rounding of the large one.
    assert np.all(np.abs(ours - reference) <= 1e-14 * reference[:, 1:])
    assert np.all(ours[:, 0] >= 0)
    assert np.all(ours[:, 1] <= (np.mean(x**2, 1) + 1) * (1 + 1e-14))


def test_constant_feature_has_a_zero_eigenvalue_and_a_tiny_spread_is_not_lost():
    low, high = moment_eigenvalues(jnp.full(4, 2.0))
    assert low == 0
    np.testing.assert_allclose(high, 5)
    spread = 1e-9  # the variance 1e-18 is below the rounding of the printed formula
    low, high = moment_eigenvalues(jnp.array([1 - spread, 1 + spread]))
    np.testing.assert_allclose(low, spread**2 / high, rtol=1e-6)


def test_numbers_of_section_2_3():
    x = book_linear_features()
    np.testing.assert_allclose(critical_step(x), 0.14039, atol=5e-6)
    np.testing.assert_allclose(1 / safe_step(x), 7.632, atol=5e-4)
    np.testing.assert_allclose(moment_eigenvalues(x), [0.509, 7.123], atol=5e-4)
    np.testing.assert_allclose(contraction_factor(x, 0.161) ** 2, 1.673, atol=2e-3)
    np.testing.assert_allclose(contraction_factor(x, 0.119) ** 2, 0.772, atol=2e-3)


def test_thresholds_in_several_dimensions():
    x = jax.random.normal(jax.random.key(3), (40, 3))
    top = np.linalg.eigvalsh(np.asarray(moment_matrix(x)))[-1]
    np.testing.assert_allclose(critical_step(x), 1 / top, rtol=1e-12)
    assert safe_step(x) <= critical_step(x)
    np.testing.assert_allclose(critical_step(x[:, :1]), critical_step(x[:, 0]), rtol=1e-14)


@pytest.mark.parametrize("width", [1, 2])
def test_half_precision_does_not_overflow(width):
    x = np.linspace(-600, 600, 8).reshape(-1, width).astype(np.float16)  # squares beyond 65504
    for name, found in (("step", critical_step(x)), ("factor", contraction_factor(x, np.float16(0.5)))):
        want = critical_step(x.astype(float)) if name == "step" else contraction_factor(x.astype(float), 0.5)
        np.testing.assert_allclose(found, want, rtol=1e-5)


@pytest.mark.parametrize(("factor", "converges"), [(0.5, True), (0.99, True), (1.01, False), (1.5, False)])
def test_the_threshold_is_sharp(factor, converges):
    step = factor * critical_step(X)
    path = gradient_descent(lambda t: squared_gradient(t, X, Y), jnp.zeros(2), step, 4000)
    distance = jnp.linalg.norm(path[-1] - ols_1d(X, Y))
    assert bool(distance < 1e-8) == converges
    assert bool(contraction_factor(X, step) < 1) == converges


def test_closed_form_of_the_path():
    start, step = jnp.array([3.0, -1.0]), 0.9 * critical_step(X)
    path = gradient_descent(lambda t: squared_gradient(t, X, Y), start, step, 50)
    np.testing.assert_allclose(descent_path(X, Y, start, step, 50), path, rtol=1e-10, atol=1e-11)


def test_closed_form_of_the_path_for_a_constant_feature():
    x, y = jnp.full(5, 2.0), jnp.arange(5.0)
    path = gradient_descent(lambda t: squared_gradient(t, x, y), jnp.array([1.0, 4.0]), 0.1, 60)
    np.testing.assert_allclose(descent_path(x, y, jnp.array([1.0, 4.0]), 0.1, 60), path, rtol=1e-10)


def test_ols_against_numpy_and_the_statistics():
    w, b = ols_1d(X, Y)
    np.testing.assert_allclose([w, b], np.polyfit(X, Y, 1), rtol=1e-10)
    residual = Y - w * X - b
    assert abs(residual.sum()) < 1e-11
    assert abs(residual @ X) < 1e-10
    r = np.corrcoef(X, Y)[0, 1]
    np.testing.assert_allclose(squared_loss(jnp.stack([w, b]), X, Y), np.var(Y) * (1 - r**2), rtol=1e-11)


def test_exercise_2_5():
    x, y = jnp.array([0.0, 2.0, 1.0]), jnp.array([1.0, 0.0, 3.0])
    np.testing.assert_allclose(ols_1d(x, y), [-1 / 2, 11 / 6], rtol=1e-14)
    np.testing.assert_allclose(squared_loss(ols_1d(x, y), x, y), 25 / 18, rtol=1e-14)


def test_rows_in_rows_out():
    model = LinearRegression.of([[3.0, 2.0]], [0.0])
    rows = jnp.array([[3.0, 4.0], [-1.0, 0.0], [4.0, 2.0]])
    np.testing.assert_array_equal(jax.vmap(model)(rows), [[17], [-3], [16]])


def test_module_sizes_and_parameters():
    model = LinearRegression(3, 2, key=jax.random.key(0))
    assert model.weight.shape == (2, 3)
    assert model(jnp.ones(3)).shape == (2,)
    assert sum(a.size for a in jax.tree.leaves(LinearRegression(1, key=jax.random.key(0)))) == 2
    assert not np.allclose(model.weight, LinearRegression(3, 2, key=jax.random.key(1)).weight)


def test_least_squares_of_several_labels_against_sklearn():
    x = jax.random.normal(jax.random.key(4), (50, 3))
    y = jax.random.normal(jax.random.key(5), (50, 2)) + x[:, :2]
    model, reference = fit_least_squares(x, y), Reference().fit(x, y)
    np.testing.assert_allclose(model.weight, reference.coef_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.bias, reference.intercept_, rtol=1e-9, atol=1e-12)
