"""Checks of identities, inequalities and order: every entry is compared, the worst one is named."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from corollary.evidence._check import Check, abscissa, aligned, lines, numbers, place, unusable

# A float64 computation of moderate length loses a few digits of its sixteen; a claim whose numerics lose more
# states its own tolerance and why.
RTOL = 1e-9


def equal(
    name: str,
    measured: ArrayLike,
    predicted: ArrayLike,
    *,
    rtol: float = RTOL,
    atol: float = 1e-12,
    x: ArrayLike | None = None,
    along: str | None = None,
) -> Check:
    """`|measured - predicted| <= atol + rtol |predicted|` in every entry.

    Slack: 1 - (largest error / its tolerance).

    >>> equal("a sum", [0.1 + 0.2], [0.3]).passed
    True
    """
    m = numbers(name, "measured", measured)
    p = aligned(name, "predicted", predicted, m.shape)
    if bad := unusable(name, "equal", m, p):
        return bad
    error, tolerance = np.abs(m - p), atol + rtol * np.abs(p)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(error == 0, 0.0, np.minimum(error / tolerance, 1e300))
    worst = int(np.argmax(ratio))
    passed = bool((error <= tolerance).all())
    at = place(worst, m.shape, xs := abscissa(name, x, m.shape[-1] if m.ndim else 1), along)
    sentence = (
        f"Largest error{at}: measured {m.flat[worst]:.10g}, predicted {p.flat[worst]:.10g}, "
        f"off by {error.flat[worst]:.3g} where {tolerance.flat[worst]:.3g} is allowed."
    )
    return Check(
        name,
        "equal",
        "passed" if passed else "violated",
        _slack(1 - float(ratio.flat[worst]), passed),
        sentence,
        series=lines(m, xs, worst, predicted=p),
        axes={"x": along},
    )


def at_most(
    name: str,
    measured: ArrayLike,
    bound: ArrayLike,
    *,
    rtol: float = RTOL,
    atol: float = 0.0,
    x: ArrayLike | None = None,
    along: str | None = None,
) -> Check:
    """`measured <= bound` in every entry, up to rounding (`atol + rtol |bound|`).

    Slack: the smallest (bound - measured) / (|bound| + |measured|). Tightness: the largest measured / bound.

    >>> at_most("a mean square", [1.0, 3.0], [2.0, 2.0]).passed
    False
    """
    return _inequality("at_most", +1.0, name, measured, bound, rtol, atol, x, along)


def at_least(
    name: str,
    measured: ArrayLike,
    bound: ArrayLike,
    *,
    rtol: float = RTOL,
    atol: float = 0.0,
    x: ArrayLike | None = None,
    along: str | None = None,
) -> Check:
    """`measured >= bound` in every entry, up to rounding (`atol + rtol |bound|`).

    Slack: the smallest (measured - bound) / (|bound| + |measured|). Tightness: the largest bound / measured.
    """
    return _inequality("at_least", -1.0, name, measured, bound, rtol, atol, x, along)


def monotone(
    name: str,
    values: ArrayLike,
    direction: str = "increasing",
    *,
    strict: bool = False,
    atol: float = 0.0,
    x: ArrayLike | None = None,
    along: str | None = None,
) -> Check:
    """`values` never turn back along the last axis (by more than `atol`); `strict`: and never stand still.

    Slack: the smallest step in the direction, over the largest absolute step.
    """
    if direction not in ("increasing", "decreasing"):
        raise ValueError(f"{name}: direction must be 'increasing' or 'decreasing', got {direction!r}.")
    v = numbers(name, "values", values)
    if v.ndim == 0 or v.shape[-1] < 2:
        return Check(name, "monotone", "empty", None, "Fewer than two values have no order.")
    if bad := unusable(name, "monotone", v):
        return bad
    steps = np.diff(v, axis=-1) * (1 if direction == "increasing" else -1)
    passed = bool((steps > atol).all() if strict else (steps >= -atol).all())
    worst = int(np.argmin(steps))
    scale = float(np.abs(steps).max()) or 1.0
    room = (float(steps.min()) + (-atol if strict else atol)) / scale
    xs = abscissa(name, x, v.shape[-1])
    at = place(worst, steps.shape, xs, along)
    row, column = divmod(worst, steps.shape[-1])
    flat = v.reshape(-1, v.shape[-1])
    a, b = flat[row, column], flat[row, column + 1]
    sentence = f"Smallest step{at}: from {a:.10g} to {b:.10g}, expected {'strictly ' * strict}{direction}."
    return Check(
        name,
        "monotone",
        "passed" if passed else "violated",
        _slack(room, passed),
        sentence,
        series=lines(v, xs, row * v.shape[-1] + column),
        axes={"x": along},
    )


def _inequality(kind, sign, name, measured, bound, rtol, atol, x, along) -> Check:
    m = numbers(name, "measured", measured)
    b = aligned(name, "bound", bound, m.shape)
    if bad := unusable(name, kind, m, b):
        return bad
    room = sign * (b - m) + atol + rtol * np.abs(b)
    scale = np.abs(b) + np.abs(m)
    with np.errstate(over="ignore"):  # far inside a bound that is next to nothing
        relative = room / np.where(scale > 0, scale, 1.0)
    worst = int(np.argmin(relative))
    passed = bool((room >= 0).all())
    # the tolerance counts as part of the bound, so that a bound below the rounding is not exceeded by it
    tolerance = atol + rtol * np.abs(b)
    above, below = (m, b + tolerance) if sign > 0 else (b - tolerance, m)
    with np.errstate(over="ignore"):
        ratios = np.minimum(above[below > 0] / below[below > 0], 1e300)
    xs = abscissa(name, x, m.shape[-1] if m.ndim else 1)
    at = place(worst, m.shape, xs, along)
    verb = "at most" if sign > 0 else "at least"
    sentence = f"Closest{at}: measured {m.flat[worst]:.10g}, which must be {verb} {b.flat[worst]:.10g}."
    note = _at_the_bound(np.abs(m - b) <= tolerance)
    sentence += f" {note}" if note else ""
    return Check(
        name,
        kind,
        "passed" if passed else "violated",
        _slack(float(relative.flat[worst]), passed),
        sentence,
        tightness=float(ratios.max()) if ratios.size else None,
        series=lines(m, xs, worst, bound=b),
        axes={"x": along} | ({"note": note} if note else {}),
    )


def _at_the_bound(close: np.ndarray) -> str:
    """A sentence on what lies within the allowed rounding of its bound, on either side; empty where nothing does."""
    if not close.any():
        return ""
    if close.all():
        return "It meets the bound up to rounding." if close.size == 1 else "All meet the bound up to rounding."
    return f"{int(close.sum())} of {close.size} meet the bound up to rounding."


def _slack(value: float, passed: bool) -> float:
    # rounding of the slack itself must not contradict the comparison
    return max(value, 0.0) if passed else min(value, -1e-300)
