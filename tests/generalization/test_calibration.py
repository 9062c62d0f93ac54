"""Calibration against sums by hand, and temperatures against a minimiser of SciPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

from corollary.generalization import best_temperature, calibration_error

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(300, 4))
# labels drawn from the softmax: calibrated as they are
Y = np.array([RNG.choice(4, p=p) for p in softmax(LOGITS, axis=1)])


@pytest.mark.parametrize("factor", [0.2, 1.0, 5.0])
def test_error_by_hand(factor):
    p = softmax(factor * LOGITS, axis=1)
    sure, right = p.max(1), p.argmax(1) == Y
    order = np.argsort(sure, kind="stable")
    groups = np.array_split(order, 10)
    expected = sum(len(g) / 300 * abs(sure[g].mean() - right[g].mean()) for g in groups)
    assert float(calibration_error(factor * LOGITS, Y, bins=10)) == pytest.approx(expected, rel=1e-4)
    # of 300 examples in 10 groups chance makes about 0.08 at most
    assert (expected < 0.1) == (factor == 1.0)


@pytest.mark.parametrize("factor", [0.2, 1.0, 5.0])
def test_temperature_is_the_minimiser(factor):
    def loss(log_t):
        return -log_softmax(factor * LOGITS / np.exp(log_t), axis=1)[np.arange(300), Y].mean()

    best = np.exp(minimize_scalar(loss, bounds=(-5, 5), method="bounded", options={"xatol": 1e-8}).x)
    assert float(best_temperature(factor * LOGITS, Y)) == pytest.approx(best, rel=1e-3)


def test_labels_that_all_have_the_largest_logit_ask_for_the_smallest_temperature():
    found = jax.jit(best_temperature)(LOGITS, LOGITS.argmax(1))
    assert float(found) == pytest.approx(np.exp(-7), rel=1e-2)


def test_bad_arguments_are_one_sentence():
    with pytest.raises(ValueError, match="y must hold labels from 0 to 3"):
        calibration_error(LOGITS, np.full(300, 7))
    with pytest.raises(ValueError, match="y must have"):
        best_temperature(LOGITS, Y[:5])
    with pytest.raises(ValueError, match="bins must be"):
        calibration_error(jnp.asarray(LOGITS), Y, bins=0)
