"""Numbers of a report: as a person reads them, and in JSON, which has none that are not finite."""

import math
from collections.abc import Sequence
from typing import Any


def short(x: float) -> str:
    """Three digits that a person can read."""
    if x is None or math.isnan(x):
        return str(x)
    if math.isinf(x):
        return "∞" if x > 0 else "-∞"
    if x == 0:
        return "0"
    x = float(f"{x:.3g}")
    if 1e-3 <= abs(x) < 1e3:
        return f"{x:.3g}"
    return f"{x:,.0f}" if 1e3 <= abs(x) < 1e6 else f"{x:.2e}"


def ranged(value: float, ends: Sequence[float] | None, unit: str = "") -> str:
    """A value with its unit, and its interval where three digits tell the two apart."""
    said = f"{short(value)} {unit}".strip()
    shown = [] if ends is None else [*map(short, ends)]
    return f"{said} [{', '.join(shown)}]" if {*shown} - {short(value)} else said


def plain(value: Any) -> Any:
    """The value as JSON has it; of numbers that are not finite the names that `float` reads."""
    if isinstance(value, dict):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if hasattr(value, "tolist") and not isinstance(value, str):  # NumPy's and JAX's
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def read(value: float | str | None) -> float | None:
    """A number that `plain` wrote."""
    return None if value is None else float(value)
