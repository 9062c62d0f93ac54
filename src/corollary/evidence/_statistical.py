"""Checks of averages, frequencies, laws and rates.

Each declares how often it fails a true statement (`false_alarm`) and shows that it would have noticed a false one:
an interval that is too wide, or too few trials, end as "inconclusive", which does not pass.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from corollary.evidence._check import FALSE_ALARM, Check, aligned, numbers, unusable


def estimate(
    name: str, samples: ArrayLike, predicted: ArrayLike, *, wrong: ArrayLike, false_alarm: float = FALSE_ALARM
) -> Check:
    """The mean of `samples` (first axis) is `predicted`, measured well enough to exclude `wrong`.

    Student's interval about the sample mean, at level `false_alarm` over all entries together, must cover the
    prediction and must not cover the stated wrong value. Slack: 1 - |mean - predicted| / half-width.

    >>> estimate("a mean", jax.random.normal(key, (1000,)), 0.0, wrong=1.0).passed
    True
    """
    from scipy import stats

    s = numbers(name, "samples", samples)
    if s.ndim == 0:
        raise ValueError(f"{name}: samples must have a first axis of repetitions.")
    p = aligned(name, "predicted", predicted, s.shape[1:])
    w = aligned(name, "wrong", wrong, s.shape[1:])
    if (p == w).any():
        raise ValueError(f"{name}: the wrong value must differ from the prediction.")
    if bad := unusable(name, "estimate", s, p, w):
        return bad
    n, entries = s.shape[0], max(p.size, 1)
    if n < 30:
        return Check(name, "estimate", "inconclusive", None, f"{n} samples are too few; at least 30 are needed.")
    mean, error = s.mean(0), s.std(0, ddof=1) / np.sqrt(n)
    # the rounding of the mean itself keeps the interval of constant samples from having no width at all
    half = stats.t.isf(false_alarm / entries / 2, n - 1) * error + 1e-13 * np.abs(s).max(0)
    half = np.maximum(half, np.finfo(float).tiny)
    covers, excludes = np.abs(mean - p) <= half, np.abs(mean - w) > half
    distance = np.abs(mean - p) / half
    worst = int(np.argmax(distance))
    where = f" at index {worst}" if p.size > 1 else ""
    m, h = mean.flat[worst], half.flat[worst]
    sentence = f"Mean of {n} samples{where}: {m:.6g} ± {h:.2g}, predicted {p.flat[worst]:.6g}."
    outcome, slack = "passed", 1 - float(distance.flat[worst])
    if not covers.all():
        outcome = "violated"
    elif not excludes.all():
        i = int(np.argmin(excludes))
        outcome, slack = "inconclusive", None
        sentence = f"The interval {mean.flat[i]:.6g} ± {half.flat[i]:.2g} also covers the wrong {w.flat[i]:.6g}."
    series = {
        "x": list(range(entries)),
        "measured": _floats(mean),
        "low": _floats(mean - half),
        "high": _floats(mean + half),
        "predicted": _floats(p),
        "wrong": _floats(w),
    }
    return Check(name, "estimate", outcome, slack, sentence, series=series)


def frequency_at_most(name: str, events: ArrayLike, probability: float, *, false_alarm: float = FALSE_ALARM) -> Check:
    """Events of which each has at most this `probability` happened no more often than that allows.

    Exact binomial test at level `false_alarm`; there must be trials enough to notice twice the allowed rate with
    probability 0.99. Slack: (largest allowed count - count) / trials.
    """
    from scipy import stats

    e = np.asarray(events)
    if e.size == 0:
        return Check(name, "frequency_at_most", "empty", None, "No trial was made.")
    if e.dtype.kind == "f" and not np.isfinite(e).all():
        return Check(name, "frequency_at_most", "not finite", None, "An event is neither true nor false.")
    if not np.isin(e, (0, 1)).all():
        raise ValueError(f"{name}: events must be true or false.")
    if not 0 <= probability < 1:
        raise ValueError(f"{name}: the allowed probability must be in [0, 1), got {probability}.")
    n, k = e.size, int(e.sum())
    allowed = 0 if probability == 0 else int(stats.binom.isf(false_alarm, n, probability))
    twice = min(2 * probability, (1 + probability) / 2)
    power = 1.0 if probability == 0 else float(stats.binom.sf(allowed, n, twice))
    sentence = f"{k} of {n} trials ({k / n:.4g}); at most {probability:.4g} is allowed ({allowed} trials)."
    outcome, slack = "passed", (allowed - k) / n
    if k > allowed:
        outcome = "violated"
    elif power < 0.99:
        outcome, slack = "inconclusive", None
        sentence += f" {n} trials notice twice that rate only with probability {power:.2g}; make more."
    low, high = stats.beta.ppf([0.005, 0.995], [k, k + 1], [n - k + 1, n - k])
    series = {
        "measured": [k / n],
        "low": [0.0 if k == 0 else float(low)],
        "high": [1.0 if k == n else float(high)],
        "bound": [float(probability)],
    }
    tightness = k / n / probability if probability > 0 else None
    return Check(name, "frequency_at_most", outcome, slack, sentence, tightness=tightness, series=series)


def same_law(
    name: str, samples: ArrayLike, law: Callable, *, wrong: Callable, false_alarm: float = FALSE_ALARM
) -> Check:
    """`samples` follow `law` and not `wrong`; each is a continuous distribution function or
    an array of samples.

    Kolmogorov-Smirnov at level `false_alarm`. Slack: 1 - distance / critical distance.
    """
    s = np.sort(numbers(name, "samples", samples).ravel())
    if bad := unusable(name, "same_law", s):
        return bad
    distance, critical = _kolmogorov(name, s, law, false_alarm)
    wrong_distance, wrong_critical = _kolmogorov(name, s, wrong, false_alarm)
    if not np.isfinite([distance, wrong_distance]).all():
        return Check(name, "same_law", "not finite", None, "The distribution function is not finite.")
    sentence = f"Kolmogorov distance {distance:.4g} of {s.size} samples; {critical:.4g} is allowed."
    outcome, slack = "passed", 1 - distance / critical
    if distance > critical:
        outcome = "violated"
    elif wrong_distance <= wrong_critical:
        outcome, slack = "inconclusive", None
        sentence = f"{s.size} samples also fit the wrong law (distance {wrong_distance:.4g}); draw more."
    grid = np.linspace(s[0], s[-1], 100)
    series = {
        "x": _floats(grid),
        "measured": _floats(np.searchsorted(s, grid, side="right") / s.size),
        "predicted": _floats(_distribution(name, law)(grid)),
        "wrong": _floats(_distribution(name, wrong)(grid)),
    }
    return Check(name, "same_law", outcome, slack, sentence, series=series)


def rate(
    name: str,
    x: ArrayLike,
    y: ArrayLike,
    slope: float,
    *,
    tolerance: float,
    side: str = "both",
    axes: str = "log-log",
    confidence: float = 0.99,
    fit: float = 0.95,
    along: str | None = None,
) -> Check:
    """`y` follows a power (`log-log`) or an exponential (`semi-log`) of `x` with this slope.

    The whole confidence interval of the fitted slope must lie within `tolerance` of the predicted one (`side`
    `"at most"` or `"at least"`: only that side counts), and the line must explain the share `fit` of the
    variance, without which the check is inconclusive. Logarithms are natural. Slack: 1 - (distance of the far end of
    the interval / tolerance).

    >>> rate("second order", [1.0, 2.0, 4.0, 8.0], [1.0, 4.0, 16.0, 64.0], 2.0, tolerance=0.1).passed
    True
    """
    from scipy import stats

    if side not in ("both", "at most", "at least"):
        raise ValueError(f"{name}: side must be 'both', 'at most' or 'at least', got {side!r}.")
    if axes not in ("log-log", "semi-log"):
        raise ValueError(f"{name}: axes must be 'log-log' or 'semi-log', got {axes!r}.")
    slope, tolerance = float(slope), float(tolerance)  # they may come as arrays, and evidence holds numbers
    if not tolerance > 0:
        raise ValueError(f"{name}: tolerance must be positive, got {tolerance}.")
    ys = numbers(name, "y", y)
    xs = numbers(name, "x", x)
    if ys.ndim != 1 or xs.shape != ys.shape:
        raise ValueError(f"{name}: x and y must have the same length, got shapes {xs.shape} and {ys.shape}.")
    if bad := unusable(name, "rate", xs, ys):
        return bad
    if (ys <= 0).any() or (axes == "log-log" and (xs <= 0).any()):
        return Check(name, "rate", "not finite", None, "A value is not positive and has no logarithm.")
    u, v = (np.log(xs) if axes == "log-log" else xs), np.log(ys)
    if u.size < 4 or np.ptp(u) == 0:
        return Check(name, "rate", "inconclusive", None, "A slope needs at least four different points.")
    line = stats.linregress(u, v)
    # SciPy gives a constant no standard error; its slope is known exactly
    half = float(stats.t.isf((1 - confidence) / 2, u.size - 2) * line.stderr) if np.ptp(v) > 0 else 0.0
    if not np.isfinite([line.slope, half]).all():
        return Check(name, "rate", "not finite", None, f"The slope is {line.slope} ± {half}.")
    low, high = line.slope - half, line.slope + half
    # how far the near and the far end of the interval stick out, on the sides that count
    over = {"both": max(high - slope, slope - low), "at most": high - slope, "at least": slope - low}[side]
    near = {"both": max(low - slope, slope - high), "at most": low - slope, "at least": slope - high}[side]
    # where the predicted slope is flat there is no variance to explain
    explained = line.rvalue**2 if abs(slope) > tolerance else 1.0
    sentence = f"Slope {line.slope:.4g} ± {half:.2g}, predicted {slope:.4g} (tolerance {tolerance:g}, {side})."
    if near > tolerance:
        outcome, slack = "violated", 1 - over / tolerance
    elif explained < fit:
        # points scattered about a line whose slope may be the predicted one show nothing either way
        outcome, slack = "inconclusive", None
        sentence = f"The line explains {explained:.3g} of the variance, {fit:g} is needed. " + sentence
    elif over > tolerance:
        outcome, slack = "inconclusive", None
        sentence += " The interval is too wide to tell."
    else:
        outcome, slack = "passed", 1 - over / tolerance
    middle = float(v.mean() - slope * u.mean())
    series = {
        "x": _floats(xs),
        "measured": _floats(ys),
        "fitted": _floats(np.exp(line.intercept + line.slope * u)),
        "predicted": _floats(np.exp(middle + slope * u)),
    }
    return Check(name, "rate", outcome, slack, sentence, series=series, axes={"x": along, "scale": axes})


def _kolmogorov(name, s, law, false_alarm) -> tuple[float, float]:
    from scipy import stats

    cdf = _distribution(name, law)
    values = cdf(s)
    n = s.size
    upper = np.searchsorted(s, s, side="right") / n
    lower = np.searchsorted(s, s, side="left") / n
    left = values if callable(law) else _distribution(name, law, side="left")(s)
    distance = max(float(np.max(upper - values)), float(np.max(left - lower)))
    if not callable(law):
        m = np.size(law)
        n = max(round(n * m / (n + m)), 1)
    return distance, float(stats.kstwo.isf(false_alarm, n))


def _distribution(name, law, side="right") -> Callable[[np.ndarray], np.ndarray]:
    if callable(law):
        return lambda t: numbers(name, "distribution function", law(t))
    data = np.sort(numbers(name, "samples of the law", law).ravel())
    if data.size == 0:
        raise ValueError(f"{name}: the samples of the law are empty.")
    return lambda t: np.searchsorted(data, t, side=side) / data.size


def _floats(a) -> list[float]:
    return [float(v) for v in np.ravel(a)]
