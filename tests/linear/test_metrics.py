import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn import metrics as reference

from corollary.linear import (
    balanced_error,
    binned_frequency,
    confusion_matrix,
    error_rate,
    logistic_function,
    mean_relative_error,
    weighted_error,
)

RNG = np.random.default_rng(0)
Y, PREDICTED = RNG.integers(0, 4, (2, 200))


def test_relative_error():
    np.testing.assert_allclose(mean_relative_error(jnp.array([1.0, 4.0]), jnp.array([2.0, 3.0])), (1 + 0.25) / 2)
    y, p = RNG.uniform(1, 2, (2, 50))
    np.testing.assert_allclose(mean_relative_error(y, p), reference.mean_absolute_percentage_error(y, p), rtol=1e-13)
    np.testing.assert_allclose(mean_relative_error(3 * y, 3 * p), mean_relative_error(y, p), rtol=1e-13)


def test_against_sklearn():
    np.testing.assert_array_equal(confusion_matrix(Y, PREDICTED, 4), reference.confusion_matrix(Y, PREDICTED))
    np.testing.assert_allclose(error_rate(Y, PREDICTED), 1 - reference.accuracy_score(Y, PREDICTED))
    expected = 1 - reference.balanced_accuracy_score(Y, PREDICTED)
    np.testing.assert_allclose(balanced_error(Y, PREDICTED, 4), expected, rtol=1e-12)
    np.testing.assert_allclose(balanced_error(Y, PREDICTED, 6), expected, rtol=1e-12)  # two classes are absent


def test_weights_by_frequency_give_the_error_rate():
    np.testing.assert_allclose(weighted_error(Y, PREDICTED, np.bincount(Y)), error_rate(Y, PREDICTED), rtol=1e-12)


@pytest.mark.parametrize("ones", [1, 30, 99])
def test_constant_classifier(ones):
    y = jnp.arange(100) < ones
    constant = jnp.full(100, int(ones > 50))
    np.testing.assert_allclose(balanced_error(y, constant, 2), 0.5)
    np.testing.assert_allclose(error_rate(y, constant), min(ones, 100 - ones) / 100)


def test_bins_against_numpy():
    x, y = RNG.normal(size=1000), RNG.integers(0, 2, 1000)
    edges = np.array([-1.5, -0.5, 0.0, 2.0])
    bins = binned_frequency(x, y, edges)
    count, _ = np.histogram(x, edges)
    ones, _ = np.histogram(x[y == 1], edges)
    np.testing.assert_array_equal(bins.count, count)
    np.testing.assert_allclose(bins.frequency, ones / count)
    np.testing.assert_allclose(bins.centre, [-1.0, -0.25, 1.0])
    assert binned_frequency(x, y, 7).count.sum() == 1000  # both ends belong
    np.testing.assert_array_equal(binned_frequency(x, y, 7).count, np.histogram(x, 7)[0])


def test_an_empty_bin_is_told_by_its_count():
    bins = binned_frequency(jnp.array([0.5]), jnp.array([1]), jnp.array([0.0, 1.0, 2.0]))
    np.testing.assert_array_equal(bins.count, [1, 0])
    assert jnp.isnan(bins.frequency[1])
    assert (bins.lower[1], bins.upper[1]) == (0, 1)


def test_intervals_cover_the_average_of_the_curve():
    keys = jax.random.split(jax.random.key(0), 2)
    x = jax.random.normal(keys[0], (100_000,))
    p = logistic_function(2 * x - 0.5)
    bins = binned_frequency(x, jax.random.bernoulli(keys[1], p).astype(float), 40)
    truth = binned_frequency(x, p, 40).frequency
    full = bins.count > 30
    covered = (bins.lower <= truth) & (truth <= bins.upper)
    assert covered[full].mean() >= 0.85  # 95 % of about 35 bins, less three standard errors
