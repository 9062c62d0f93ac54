"""A check: one comparison of a prediction with a measurement. It has a margin, and it can fail."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

#: How a comparison can end. Only the first passes, and only the second refutes anything: a value that is not
#: finite, an empty array or too few samples show neither that a statement is true nor that it is false.
OUTCOMES = ("passed", "violated", "not finite", "empty", "inconclusive")

#: The probability with which a statistical check may fail a true statement. Thousands of checks run on tens of
#: seeds; at one in a million all of them can be expected to pass together.
FALSE_ALARM = 1e-6


@dataclass(frozen=True)
class Check:
    """One comparison, carried out.

    `slack` is how far inside (positive) or outside (negative) the allowed region the worst instance lies, in the
    unit that the kind declares; None where nothing could be compared. `tightness` is measured / bound for
    inequalities: 1 means attained.
    """

    name: str
    kind: str
    outcome: str
    slack: float | None
    sentence: str
    tightness: float | None = None
    series: dict[str, list] = field(default_factory=dict)
    axes: dict[str, Any] = field(default_factory=dict)
    control: str | None = None
    printed: bool = False

    @property
    def turned(self) -> bool:
        """Whether the claim needs the comparison to be violated: a control, or what is wrong as printed."""
        return self.control is not None or self.printed

    @property
    def passed(self) -> bool:
        """Whether the check says what the claim needs."""
        return self.outcome == ("violated" if self.turned else "passed")

    @property
    def margin(self) -> float | None:
        """Zero or more exactly when the check passed (None when nothing could be compared)."""
        if self.slack is None:
            return None
        return -self.slack if self.turned else self.slack


@dataclass(frozen=True)
class Figure:
    """A picture that a claim adds to those its checks draw: a name and a Vega-Lite specification."""

    name: str
    spec: dict


def control(premise: str, check: Check) -> Check:
    """A check on an instance that breaks the named premise: it passes exactly when the check inside is violated.

    Failing for another reason (a value that is not finite, nothing to compare, too few samples) is not enough.

    >>> control("the bound holds", at_most("too much", 3.0, 2.0)).passed
    True
    """
    _plain("control", check)
    if not premise.strip():
        raise ValueError("A control must name the premise that is broken: control('premise', check).")
    return replace(check, control=premise)


def printed(check: Check) -> Check:
    """A check of what a text prints, and that is wrong: it passes exactly when the check inside is violated.

    The instance meets the premises of the text, and the corrected statement is a plain check beside it.
    """
    _plain("printed", check)
    return replace(check, printed=True)


def _plain(who: str, check: Check) -> None:
    if not isinstance(check, Check):
        raise TypeError(f"{who} takes a check, got {type(check).__name__}.")
    if check.turned:
        raise ValueError(f"{who} takes a plain check; {check.name!r} is already a control, or printed.")


def numbers(name: str, what: str, value) -> np.ndarray:
    """`value` as a float64 array, or a sentence naming the check and the argument."""
    try:
        out = np.asarray(value)
    except Exception:
        raise TypeError(f"{name}: {what} must be an array of numbers.") from None
    if out.dtype.kind not in "biufV":  # "V" holds the extended floats of JAX, such as bfloat16
        raise TypeError(f"{name}: {what} must hold real numbers, got dtype {out.dtype}.")
    return out.astype(np.float64)


def aligned(name: str, what: str, value, shape: tuple[int, ...]) -> np.ndarray:
    """`value` spread over the shape of the measured values, which it may not enlarge."""
    out = numbers(name, what, value)
    try:
        return np.broadcast_to(out, shape)
    except ValueError:
        raise ValueError(f"{name}: {what} has shape {out.shape}, which does not fit the measured {shape}.") from None


def unusable(name: str, kind: str, *arrays: np.ndarray) -> Check | None:
    """The failed check for values that cannot be compared, or None when they can."""
    if any(a.size == 0 for a in arrays):
        return Check(name, kind, "empty", None, "Nothing was measured.")
    for a in arrays:
        if not np.isfinite(a).all():
            at = np.argwhere(~np.isfinite(np.atleast_1d(a)))[0]
            where = "" if a.ndim == 0 else f" at index {tuple(map(int, at))}"
            return Check(name, kind, "not finite", None, f"A value is {np.atleast_1d(a)[tuple(at)]}{where}.")
    return None


def place(index: int, shape: tuple[int, ...], x: np.ndarray | None, along: str | None) -> str:
    """Words for the instance at a flat index: 'at iteration = 17' or 'at index (3, 17)'."""
    if not shape:
        return ""
    at = tuple(int(i) for i in np.unravel_index(index, shape))
    if along is None:
        return f" at index {at[0] if len(at) == 1 else at}"
    instance = f" of instance {at[0] if len(at) == 2 else at[:-1]}" if len(at) > 1 else ""
    return f" at {along} = {at[-1] if x is None else x[at[-1]]:g}{instance}"


def lines(measured: np.ndarray, x: np.ndarray | None, worst: int, **columns: np.ndarray) -> dict[str, list]:
    """What the figure of a check needs: at most a few lines of a hundred points, the worst instance among them."""
    shape = measured.shape or (1,)
    length = shape[-1]
    rows = measured.reshape(-1, length).shape[0]
    worst_row, worst_column = divmod(worst, length)
    keep_rows = sorted({worst_row, *np.linspace(0, rows - 1, min(rows, 5)).astype(int).tolist()})
    keep = sorted({worst_column, *np.linspace(0, length - 1, min(length, 120)).astype(int).tolist()})
    xs = np.arange(length) if x is None else x
    table: dict[str, list] = {"instance": [], "x": [], "measured": []} | {c: [] for c in columns}
    for r in keep_rows:
        table["instance"] += [r] * len(keep)
        table["x"] += [float(xs[i]) for i in keep]
        for name, values in {"measured": measured, **columns}.items():
            table[name] += [float(values.reshape(-1, length)[r, i]) for i in keep]
    return table


def abscissa(name: str, x, length: int) -> np.ndarray | None:
    """The positions along the last axis, if given."""
    if x is None:
        return None
    out = numbers(name, "x", x)
    if out.shape != (length,):
        raise ValueError(
            f"{name}: x must have shape ({length},), like the last axis of the measured values, got {out.shape}."
        )
    return out
