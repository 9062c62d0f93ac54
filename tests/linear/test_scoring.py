import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from corollary.data import book_logistic_features, book_logistic_table, book_scored_table, logistic_data
from corollary.linear import Standardiser, fit_newton, theta_from_scores, theta_in_scores


def test_numbers_of_section_3_5():
    x = book_logistic_features()
    fit = Standardiser.fit(x)
    np.testing.assert_allclose([fit.mean, fit.scale], [7.0435, 2.2976], atol=5e-5)
    printed = book_scored_table().x
    np.testing.assert_allclose(Standardiser.fit(x, ddof=0).transform(x)[:5], printed, atol=5.1e-3)
    assert jnp.max(jnp.abs(fit.transform(book_logistic_table().x) - printed)) > 0.03  # ddof 1 is not what was printed


def test_table_3_3_needs_ddof_0():
    x = book_logistic_features()
    for ddof, matches in ((0, True), (1, False)):
        fit = Standardiser.fit(x, ddof=ddof)
        w, _ = theta_in_scores(jnp.array([2.2227, -15.49]), fit.mean, fit.scale)
        assert bool(abs(w - 5.06) < 5e-3) == matches


@pytest.mark.parametrize("ddof", [0, 1])
def test_scores_have_mean_0_and_variance_1(ddof):
    x = 5 + 3 * jax.random.normal(jax.random.key(0), (40, 3))
    fit = Standardiser.fit(x, ddof=ddof)
    u = np.asarray(fit.transform(x))
    np.testing.assert_allclose(u.mean(0), 0, atol=1e-13)
    np.testing.assert_allclose(u.var(0, ddof=ddof), 1, rtol=1e-12)
    np.testing.assert_allclose(fit.inverse(u), x, rtol=1e-13)
    if ddof == 0:
        new = jnp.ones((2, 3))
        np.testing.assert_allclose(fit.transform(new), StandardScaler().fit(x).transform(new), rtol=1e-12)


def test_optimum_moves_with_the_features():
    x, y = logistic_data(jnp.array([1.0, -0.5, 0.3]), 200, key=jax.random.key(1))
    matrix, mean = jnp.array([[2.0, 1.0], [0.5, -1.0]]), jnp.array([3.0, -7.0])
    raw, moved = fit_newton(x @ matrix.T + mean, y).theta, fit_newton(x, y).theta
    np.testing.assert_allclose(theta_in_scores(raw, mean, matrix), moved, rtol=1e-9)
    np.testing.assert_allclose(theta_from_scores(moved, mean, matrix), raw, rtol=1e-9)
    penalised = fit_newton(x @ matrix.T + mean, y, penalty=0.1).theta, fit_newton(x, y, penalty=0.1).theta
    assert jnp.max(jnp.abs(theta_in_scores(penalised[0], mean, matrix) - penalised[1])) > 1e-2


@pytest.mark.parametrize("scale", [2.0, (2.0, 3.0), ((1.0, 2.0), (0.0, 1.0))])
def test_there_and_back(scale):
    theta = jnp.array([1.0, -2.0, 0.5])
    there = theta_in_scores(theta, 1.5, jnp.asarray(scale))
    np.testing.assert_allclose(theta_from_scores(there, 1.5, jnp.asarray(scale)), theta, rtol=1e-14)
