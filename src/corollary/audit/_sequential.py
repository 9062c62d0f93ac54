"""Tests that may be repeated at every look of a training: each look spends a part of one chance of a false alarm.

The k-th look at one question may be wrong with probability at most `spent(delta, k)`, and these add up to `delta`
however often one looks and however the looks depend on each other. Every test has a margin: not any difference is
asked for, but one that matters.
"""

import math

import numpy as np
from scipy.special import chdtr, stdtr

# spreads of losses below this share of them are rounding, not noise
LEAST = 1e-3
# how much what is usual counts beside what was seen
WEIGHT = 8


def spent(delta: float, look: int) -> float:
    """The chance of a false alarm that look 1, 2, ... may use: `delta (1/log2(k+1) - 1/log2(k+2))`, in all `delta`."""
    return delta * (1 / math.log2(look + 1) - 1 / math.log2(look + 2))


def jumped(before: np.ndarray, now: np.ndarray, factor: float, usual: float) -> float:
    """The p-value of: the positive numbers `now` are not typically more than `factor` times those of `before`.

    Student's prediction interval for the mean of new logarithms from the old ones. Few old ones do not tell how much
    they scatter: their variance is averaged with `usual` squared, which counts as `WEIGHT` degrees of freedom. Premise:
    logarithms that are nearly normal and do not trend within `before` by more than they scatter. A factor below 1 asks
    for a fall.
    """
    old, new = np.log(before), np.log(now)
    degrees = len(old) - 1 + WEIGHT
    variance = (float(np.sum((old - old.mean()) ** 2)) + WEIGHT * usual**2) / degrees
    spread = math.sqrt(variance * (1 / len(old) + 1 / len(new)))
    sign = 1 if factor >= 1 else -1
    return float(stdtr(degrees, -sign * (new.mean() - old.mean() - math.log(factor)) / spread))


def risen(before: np.ndarray, now: np.ndarray, factor: float) -> float:
    """The p-value of: the mean loss `now` is at most `factor` times that of `before`, on the same examples.

    The paired Student test; losses are skewed to the right, which makes it cautious.
    """
    change = now - factor * before
    spread = max(float(change.std(ddof=1)), LEAST * float(np.abs(before).mean()), np.finfo(float).tiny)
    return float(stdtr(len(change) - 1, -change.mean() / spread * math.sqrt(len(change))))


def too_low(value: float, batch_size: int, sample: np.ndarray) -> float:
    """The p-value of: `value` is the mean loss of a batch that was drawn from where the losses `sample` were drawn."""
    spread = max(float(sample.std(ddof=1)), LEAST * float(np.abs(sample).mean()), np.finfo(float).tiny)
    error = spread * math.sqrt(1 / batch_size + 1 / len(sample))
    return float(stdtr(len(sample) - 1, (value - float(sample.mean())) / error))


def roughness(losses: np.ndarray) -> np.ndarray:
    """The variance of independent noise in rows of losses, from second differences: no slope enters it."""
    return np.mean(np.diff(losses, 2, axis=-1) ** 2, axis=-1) / 6


def too_smooth(losses: np.ndarray, variance: float) -> float:
    """The p-value of: the noise in a row of losses has at least this variance.

    The mean square of n second differences of independent normal numbers has the variance of a chi-squared with
    18 n / 35 degrees of freedom: their correlations are 1, -2/3, 1/6, the squares of which add up to 35/18.
    """
    n = len(losses) - 2
    degrees = 18 * n / 35
    return float(chdtr(degrees, degrees * float(roughness(losses)) / max(variance, np.finfo(float).tiny)))
