"""Logarithmic axes of the pictures: few ticks, no lines between them, and powers of ten as people write them."""

from collections.abc import Iterable
from typing import Any

import altair as alt

from corollary._charts import axis, log_scale

# 0.01, 1, 1000 as they are; 1e5 and not 1e+5
LABELS = (
    "datum.value >= 0.001 && datum.value < 10000 ? format(datum.value, '~r') "
    ": replace(format(datum.value, '~e'), 'e+', 'e')"
)


def logarithmic(values: Iterable[float]) -> dict[str, Any]:
    """Scale and axis over these values, as `alt.X` and `alt.Y` take them."""
    values = list(values)
    scale = log_scale(values)
    ticks = {name: part for name, part in axis(scale, values).items() if name == "values"}
    return dict(scale=alt.Scale(**scale), axis=alt.Axis(labelExpr=LABELS, **ticks))
