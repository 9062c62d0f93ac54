import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary import data
from corollary.data import _book


@pytest.fixture(autouse=True)
def _double_precision():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize(
    ("features", "table", "digits"),
    [
        (data.book_linear_features, data.book_linear_table, 1),
        (data.book_logistic_features, data.book_logistic_table, 2),
        (lambda: data.book_perfect_data().x, data.book_perfect_table, 2),
        (data.book_multiclass_features, data.book_multiclass_table, 2),
    ],
)
def test_recovered_features_are_the_printed_rows(features, table, digits):
    np.testing.assert_allclose(features()[:5], table().x, atol=0.5 * 10.0**-digits + 1e-9)


def test_sizes():
    assert data.book_linear_features().shape == (100,)
    assert data.book_logistic_features().shape == (50,)
    assert data.book_perfect_data().x.shape == (100,)
    assert data.book_multiclass_features(7).shape == (7, 2)
    np.testing.assert_array_equal(data.book_multiclass_features(7), data.book_multiclass_features(20)[:7])


def test_perfect_labels_are_the_printed_ones():
    x, y = data.book_perfect_data()
    np.testing.assert_array_equal(y[:5], data.book_perfect_table().y)
    np.testing.assert_array_equal(y, x > 0)


def test_surrogates_keep_the_features_and_the_logistic_one_also_the_printed_labels():
    np.testing.assert_array_equal(data.book_linear_surrogate().x, data.book_linear_features())
    np.testing.assert_array_equal(data.book_logistic_surrogate().x, data.book_logistic_features())
    np.testing.assert_array_equal(data.book_multiclass_surrogate().x, data.book_multiclass_features())
    np.testing.assert_array_equal(data.book_logistic_surrogate().y[:5], data.book_logistic_table().y)
    assert set(np.unique(data.book_multiclass_surrogate(300).y)) == {0, 1, 2}


def test_linear_surrogate_has_about_the_printed_loss():
    x, y = data.book_linear_surrogate()
    residual = np.polyval(np.polyfit(x, y, 1), x) - y
    # 4.3^2 = 18.49 with standard error 18.49 sqrt(2/100) = 2.6; printed 18.66.
    assert abs(np.mean(residual**2) - 18.66) < 2 * 2.6


@pytest.mark.parametrize("law", _book.LAWS)
def test_linear_data_follow_their_line(law):
    x, y = data.linear_data(jnp.array([2.0, -1.0]), 1000, key=jax.random.key(0), noise=0.0, law=law)
    assert x.shape == y.shape == (1000,)
    np.testing.assert_allclose(y, 2 * x - 1, rtol=1e-14)
    noisy = data.linear_data(jnp.array([2.0, -1.0]), 1000, key=jax.random.key(0), noise=3.0, law=law)
    error = np.std(noisy.y - 2 * noisy.x + 1)
    assert abs(error - 3) < 4 * 3 / np.sqrt(2 * 1000)


@pytest.mark.parametrize(
    ("law", "mean", "variance"),
    [("normal", 0, 1), ("uniform", 0, 1 / 3), ("exponential", 1, 1), ("lognormal", np.exp(0.5), np.e * (np.e - 1)),
     ("student", 0, 5 / 3)],
)  # fmt: skip
def test_laws_have_their_mean(law, mean, variance):
    x = data.linear_data(jnp.zeros(2), 40_000, key=jax.random.key(1), law=law).x
    assert abs(x.mean() - mean) < 4 * np.sqrt(variance / 40_000)


def test_logistic_labels_follow_their_probability():
    theta = jnp.array([1.0, -2.0, 0.5])
    x, y = data.logistic_data(theta, 40_000, key=jax.random.key(2))
    p = jax.nn.sigmoid(x @ theta[:-1] + theta[-1])
    for half in (p < 0.5, p >= 0.5):
        z = jnp.sum(jnp.where(half, y - p, 0)) / jnp.sqrt(jnp.sum(jnp.where(half, p * (1 - p), 0)))
        assert abs(z) < 4


def test_softmax_labels_follow_their_probability():
    theta = jnp.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.5], [-1.0, 0.0, -0.5]])
    x, y = data.softmax_data(theta, 40_000, key=jax.random.key(3))
    p = jax.nn.softmax(x @ theta[:, :-1].T + theta[:, -1])
    z = (jax.nn.one_hot(y, 3) - p).sum(0) / jnp.sqrt((p * (1 - p)).sum(0))
    assert jnp.all(jnp.abs(z) < 4)


def test_keys_decide_and_vmap_works():
    theta, keys = jnp.array([1.0, 0.0]), jax.random.split(jax.random.key(0), 3)
    batch = jax.vmap(lambda k: data.logistic_data(theta, 10, key=k))(keys)
    assert batch.x.shape == (3, 10)
    np.testing.assert_array_equal(batch.x[1], data.logistic_data(theta, 10, key=keys[1]).x)
    assert not np.allclose(batch.x[0], batch.x[1])


def test_single_precision_without_a_scope():
    with jax.enable_x64(False):
        assert data.book_linear_features().dtype == jnp.float32
        assert data.linear_data(jnp.ones(2), 3, key=jax.random.key(0)).y.dtype == jnp.float32


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: data.book_multiclass_features(0), "n must be at least 1"),
        (lambda: data.book_multiclass_surrogate(2.5), "n must be an integer"),
        (lambda: data.linear_data(jnp.ones(1), 5, key=jax.random.key(0)), "theta must hold at least one weight"),
        (lambda: data.linear_data(jnp.ones(2), 0, key=jax.random.key(0)), "n must be at least 1"),
        (lambda: data.linear_data(jnp.ones(2), 5, key=jax.random.key(0), noise=-1.0), "noise must be zero or more"),
        (lambda: data.linear_data(jnp.ones(2), 5, key=jax.random.key(0), law="cauchy"), "law must be one of"),
        (lambda: data.logistic_data(jnp.array([jnp.nan, 0]), 5, key=jax.random.key(0)), "theta must be finite"),
        (lambda: data.logistic_data(jnp.ones(2), 5, key=jax.random.key(0), law="cauchy"), "law must be one of"),
        (lambda: data.softmax_data(jnp.ones((1, 3)), 5, key=jax.random.key(0)), "theta must have at least 2 rows"),
        (lambda: data.softmax_data(jnp.ones(3), 5, key=jax.random.key(0)), r"theta must have shape \(J, p\)"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_the_importance_data_are_the_printed_rows_and_repeat_their_noise():
    (x, y), table = data.book_importance_data(), data.book_importance_table()
    np.testing.assert_allclose(x[:5], table.x, atol=0.005 + 1e-9)
    np.testing.assert_array_equal(y[:5], table.y)
    assert x.shape == (100, 2)
    assert np.mean(y) == 0.46
    noise = np.asarray(x).reshape(-1)[:100]
    np.testing.assert_array_equal(y, x[:, 1] > 0.3 * x[:, 0] + 0.2 + noise / 2)
    other = data.book_importance_data(fresh=True)
    np.testing.assert_array_equal(other.x, x)
    assert np.any(np.asarray(other.y) != y)
