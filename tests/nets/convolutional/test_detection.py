import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from corollary.nets.convolutional.detection import (
    REFERENCE,
    REFERENCE_CHANNELS,
    KnownSignalDetector,
    PearsonDetector,
    area_under_curve,
    channel_correlation,
    locate,
    pearson_decomposition,
    signal_data,
    sliding_pearson,
)
from corollary.nets.convolutional.one_filter import OneFilterCNN, maximum, one_filter_gradient

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
X = RNG.normal(size=12)


def test_signals_hold_the_reference_where_they_say():
    x, y, start = map(np.asarray, signal_data(200, key=KEY, noise=0.0))
    np.testing.assert_array_equal(REFERENCE, [4, 4.5, 5, 5.5, 6, 6, 6])
    assert x.shape == (200, 25)
    assert set(start[y == 0]) == {-1}
    assert (start[y == 1].min(), start[y == 1].max()) == (0, 18)
    for row, n in zip(x[y == 1], start[y == 1], strict=True):
        np.testing.assert_array_equal(row[n : n + 7], REFERENCE)


def test_sliding_pearson_against_numpy():
    expected = [np.corrcoef(REFERENCE, X[n : n + 7])[0, 1] for n in range(6)]
    np.testing.assert_allclose(sliding_pearson(REFERENCE, X), expected, rtol=1e-10)
    weight, offset = pearson_decomposition(REFERENCE, X)
    np.testing.assert_allclose(weight * np.correlate(X, REFERENCE, "valid") - offset, expected, rtol=1e-10)
    np.testing.assert_array_equal(sliding_pearson(REFERENCE, np.ones(9)), 0)


def test_area_under_curve_against_scikit_learn():
    scores, y = np.round(RNG.normal(size=60), 1), RNG.integers(0, 2, 60)
    assert area_under_curve(scores, y) == pytest.approx(roc_auc_score(y, scores))


def test_detectors_find_their_best_threshold_and_curve():
    x, y, _ = signal_data(60, key=KEY)
    detector = PearsonDetector().fit(x, y)
    scores = np.asarray(jax.jit(jax.vmap(detector.score))(x))
    right = max(np.mean((scores > t) == np.asarray(y)) for t in np.r_[scores - 1e-9, scores + 1e-9])
    assert np.mean(np.asarray(jax.jit(jax.vmap(detector))(x)) == y) == pytest.approx(right)
    known = KnownSignalDetector().fit(x, y)
    assert np.mean((np.asarray(jax.jit(jax.vmap(known))(x)) > 0.5) == y) > 0.9
    loss = lambda wb: -jnp.log(KnownSignalDetector(REFERENCE, *wb)(x[0]))  # noqa: E731
    slope = jax.jit(jax.grad(loss))(jnp.array([0.01, -1.0]))
    np.testing.assert_allclose(KnownSignalDetector(REFERENCE, 0.01, -1.0).gradient(x[0], 1), slope, rtol=1e-9)


def test_channels():
    x = np.zeros((2, 20))
    x[:, 4:11] = -REFERENCE_CHANNELS  # the absolute value finds the negative too
    found = channel_correlation(REFERENCE_CHANNELS, x)
    np.testing.assert_allclose(found[1], np.correlate(x[1], REFERENCE_CHANNELS[1], "valid"), rtol=1e-12)
    assert locate(REFERENCE_CHANNELS, x) == 4


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: signal_data(3, key=KEY, length=5), "reference must be no longer than the observations"),
        (lambda: signal_data(3, key=KEY, background=0.0), "background must be positive"),
        (lambda: sliding_pearson([1.0], X), "reference must have at least two entries"),
        (lambda: sliding_pearson(REFERENCE, X[:3]), "x must be at least as long as the reference"),
        (lambda: area_under_curve([1.0, 2.0], [0]), "y must have shape"),
        (lambda: locate(REFERENCE_CHANNELS, X[None]), "x must have shape"),
        (lambda: OneFilterCNN(0, key=KEY), "size must be at least 1"),
        (lambda: OneFilterCNN(2, key=KEY, scale=0.0), "scale must be positive"),
        (lambda: one_filter_gradient(None, X, 1), "network must be a OneFilterCNN"),
        (lambda: maximum([[1.0]]), "x must have shape"),
    ],
)
def test_bad_signals_are_one_sentence(call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call()
