"""The law of Nagarajan and Kolter against SciPy, sums written out, and fresh points."""

import jax
import numpy as np
import pytest
from scipy import stats

from corollary.generalization import NagarajanKolter, junk_needed

LAW = NagarajanKolter(20, 300, 3, 2.0)


def test_points_have_the_signal_and_the_junk():
    x, y = map(np.asarray, LAW.sample(4000, key=jax.random.key(0)))
    assert x.shape == (4000, 303)
    assert set(y) == {-1.0, 1.0}
    np.testing.assert_allclose(x[:, :3], np.outer(y, np.ones(3)) / np.sqrt(60))
    np.testing.assert_allclose(np.sum(np.asarray(LAW.signal) ** 2), 1 / 20)
    squares = (x[:, 3:] ** 2).sum(1) * 300 / 2.0
    assert stats.kstest(squares, stats.chi2(300).cdf).pvalue > 1e-4


def test_one_step_adds_up_the_sample():
    x, y = LAW.sample(20, key=jax.random.key(1))
    total = sum(float(b) * np.asarray(a) for a, b in zip(x, y, strict=True))
    np.testing.assert_allclose(LAW.one_step((x, y)), total, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(LAW.one_step((x, y), step=0.5), total / 2, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(LAW.one_step((LAW.flipped(x), y)), LAW.flipped(total), rtol=1e-12, atol=1e-14)


def test_test_error_against_the_normal_law_and_fresh_points():
    x, y = LAW.sample(20, key=jax.random.key(2))
    w = np.array(LAW.one_step((x, y)))
    w[:3] *= 0.2  # so that it errs often enough to be counted
    exact = stats.norm.cdf(-(w[:3] @ np.asarray(LAW.signal)) / (np.sqrt(2.0 / 300) * np.linalg.norm(w[3:])))
    np.testing.assert_allclose(LAW.test_error(w), exact, rtol=1e-12)
    new = LAW.sample(20_000, key=jax.random.key(3))
    wrong = round(20_000 * float(LAW.training_error(w, new)))
    assert stats.binomtest(wrong, 20_000, exact).pvalue > 1e-4
    assert 0.05 < exact < 0.45


def test_without_junk_the_error_is_zero_or_one():
    w = np.ones(303)
    assert LAW.test_error(LAW.pruned(w)) == 0
    assert LAW.test_error(LAW.pruned(-w)) == 1
    assert LAW.test_error(0 * w) == 1
    np.testing.assert_array_equal(LAW.test_error(np.stack([LAW.pruned(w), LAW.pruned(-w)])), [0, 1])
    assert np.isfinite(jax.grad(LAW.test_error)(LAW.pruned(w))).all()


def test_errors_of_several_classifiers():
    data = LAW.sample(7, key=jax.random.key(4))
    w = np.random.default_rng(0).normal(size=(2, 303))
    expected = [np.mean(np.asarray(data[1]) * (np.asarray(data[0]) @ v) <= 0) for v in w]
    np.testing.assert_allclose(LAW.training_error(w, data), expected)


def test_junk_needed():
    np.testing.assert_allclose(junk_needed(100, 0.01, 3.0), 1800 * np.log(100))
    for delta in (0.3, 0.01, 1e-6):
        ratio = float(junk_needed(1.0, delta))
        assert stats.norm.cdf(-np.sqrt(ratio)) <= delta / 2


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: NagarajanKolter(0, 3), "m must be at least 1"),
        (lambda: NagarajanKolter(3, 3, 1, 0.0), "noise must be positive"),
        (lambda: LAW.sample(0, key=jax.random.key(0)), "n must be at least 1"),
        (lambda: LAW.test_error(np.ones(4)), r"w must have shape \(..., 303\)"),
        (lambda: LAW.one_step(np.ones((2, 303))), r"data must be a pair \(x, y\)"),
        (lambda: LAW.one_step((np.ones((2, 303)), np.ones(3))), "y must have shape"),
        (lambda: LAW.one_step((np.ones((1, 303)), [3.0])), r"y must be in \[-1, 1\]"),
        (lambda: junk_needed(10, 0.0), r"delta must be in \(0, 1\)"),
    ],
)
def test_sentences(call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call()
