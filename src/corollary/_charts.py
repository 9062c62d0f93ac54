"""How pictures look: colours, sizes, scales and axes. Checks of claims and `.plot()` of results draw with these.

Scales and axes are plain Vega-Lite, as dictionaries; `lines` makes an Altair chart of them, which can be layered and
joined like any other.
"""

import math
from typing import Any

import numpy as np

MEASURED, PREDICTED, FITTED, WRONG, INK, FAILED = "#1f6f8b", "#d1495b", "#66a182", "#9aa0a6", "#22313f", "#b00020"
QUIET = "#5f6b76"
DASHES = [5, 4]
SOLID = [1, 0]
WIDTH, HEIGHT = 300, 190
# data that span more than this are drawn on a logarithmic axis
SPAN = 50.0
# what is left between the data and the ends of a logarithmic axis, as a share of it
ROOM = 0.04

CONFIG = {
    "font": "Helvetica, Arial, sans-serif",
    "title": {"color": INK},
    "axis": {
        "gridColor": "#e8ecef",
        "labelColor": "#46525e",
        "titleColor": "#46525e",
        "domainColor": "#b6c0c8",
        # labels stay under their ticks: pushed inwards, the first and the last run into their neighbours
        "labelFlush": False,
        "labelOverlap": "greedy",
        "labelSeparation": 6,
        # letters may be wider where a picture is seen than where it was laid out
        "titlePadding": 8,
    },
    "legend": {"columnPadding": 26, "labelColor": "#46525e"},
    "range": {"category": [MEASURED, PREDICTED, FITTED, WRONG]},
    "bar": {"color": MEASURED},
    "line": {"color": MEASURED},
    "circle": {"color": MEASURED},
    "view": {"stroke": None},
}


def scale(values: list) -> dict:
    """Logarithmic where positive values span decades, so down to zero where zeros are among them; else linear."""
    known = _finite(values)
    if not known:
        return {"zero": False}
    low, high = min(known), max(known)
    positive = [v for v in known if v > 0]
    if low >= 0 and positive and high > SPAN * min(positive):
        return log_scale(known) if low > 0 else {"type": "symlog", "constant": min(positive), "nice": False}
    if high - low < 1e-6 * max(abs(low), abs(high)):  # nothing but rounding: do not zoom in on it
        return {"zero": False, "domain": sorted([0.9 * low, 1.1 * high]), "nice": False}
    return {"zero": False}


def position_scale(values: list) -> dict:
    """The scale of positions along an axis: logarithmic only where most of them would crowd at one end without."""
    known = sorted(set(_finite(values)))
    crowded = len(known) > 2 and known[0] > 0 and known[-1] > max(5 * known[len(known) // 2], 20 * known[0])
    return log_scale(known) if crowded else {"zero": False}


def away_from_the_axis(scale: dict) -> dict:
    """The scale with some room at its ends, so that points do not lie on the axis."""
    return scale if scale.get("type") == "log" else scale | {"nice": False, "padding": 8}


def log_scale(values: list) -> dict:
    """A logarithmic scale over the positive ones of `values`."""
    known = [v for v in _finite(values) if v > 0]
    if not known:
        return {"type": "log"}
    low, high = math.log10(min(known)), math.log10(max(known))
    room = ROOM * max(high - low, 0.3)
    return {"type": "log", "domain": [10 ** (low - room), 10 ** (high + room)], "nice": False}


def axis(scale: dict, values: list) -> dict:
    """Few ticks at round numbers: on a logarithmic scale powers of ten, or 1, 2, 5 of each where these are few."""
    known = _finite(values)
    kind = scale.get("type")
    if kind not in ("log", "symlog"):
        largest = max(map(abs, known), default=1.0)
        if known and all(v == int(v) for v in known) and max(known) - min(known) <= 8:
            return {"values": list(range(int(min(known)), int(max(known)) + 1)), "format": "d"}
        return {"tickCount": 5} | ({} if largest == 0 or 1e-3 < largest < 1e6 else {"format": "~e"})
    positive = [v for v in known if v > 0]
    if not positive:
        return {}
    low, high = scale.get("domain", [min(positive), max(positive)])
    ticks = _log_ticks(max(low, min(positive) / 10), high)
    form = "~g" if ticks[0] >= 1e-4 and ticks[-1] < 1e5 and math.log10(high / low) < 3 else "~e"
    if kind == "symlog":
        return {"values": [0.0, *ticks], "labelExpr": f"datum.value == 0 ? '0' : format(datum.value, '{form}')"}
    return {"values": ticks, "format": form}


def lines(
    rows: list[dict],
    x: str,
    y: str,
    *,
    colour: str | None = None,
    dashes: str | None = None,
    title: str | None = None,
    y_scale: dict | None = None,
    points: bool = False,
) -> Any:
    """An Altair chart of points or lines; `x` and `y` name fields, and title their axes (`title` that of `y`).

    One line per value of the field `colour`, and of the field `dashes`, whose first value is drawn solid.
    """
    import altair as alt

    across, up = [row[x] for row in rows], [row[y] for row in rows]
    x_scale, y_scale = position_scale(across), scale(up) if y_scale is None else y_scale
    if y_scale.get("type") == "log":
        rows = [row for row in rows if row[y] > 0]
    chart = alt.Chart(alt.Data(values=rows))
    if points:
        x_scale = away_from_the_axis(x_scale)
        chart = chart.mark_point(filled=True, size=34, color=MEASURED)
    else:
        chart = chart.mark_line(strokeWidth=2, color=MEASURED)
    encodings = {
        "x": alt.X(field=x, type="quantitative", scale=alt.Scale(**x_scale), axis=alt.Axis(**axis(x_scale, across))),
        "y": alt.Y(
            field=y,
            type="quantitative",
            title=title or y,
            scale=alt.Scale(**y_scale),
            axis=alt.Axis(**axis(y_scale, up)),
        ),
    }
    # of one height, so that the legends of colours and of dashes stand in one row
    legend = alt.Legend(orient="bottom", title=None, symbolSize=300, symbolType="stroke", clipHeight=12)
    if colour is not None:
        order = list(dict.fromkeys(row[colour] for row in rows))
        encodings["color"] = alt.Color(field=colour, type="nominal", sort=order, legend=legend)
    if dashes is not None:
        order = list(dict.fromkeys(row[dashes] for row in rows))
        encodings["strokeDash"] = alt.StrokeDash(
            field=dashes,
            type="nominal",
            scale=alt.Scale(domain=order, range=[SOLID] + [DASHES] * (len(order) - 1)),
            legend=legend,
        )
    return chart.encode(**encodings).properties(width=WIDTH, height=HEIGHT)


def bars(rows: list[dict], chart: Any, low: str, high: str) -> Any:
    """Vertical bars from the field `low` to the field `high`, on the axes of `chart`."""
    import altair as alt

    y = chart.encoding.y.copy()
    y.field = low
    rules = alt.Chart(alt.Data(values=rows)).mark_rule(strokeWidth=2, color=MEASURED)
    return rules.encode(x=chart.encoding.x, y=y, y2=alt.Y2(field=high)).properties(width=WIDTH, height=HEIGHT)


def stretches(values: np.ndarray, most: int = 500) -> tuple[np.ndarray, np.ndarray]:
    """The last axis cut into at most so many stretches of nearly one length: the last step of each, and its mean."""
    ends = np.unique(np.linspace(0, values.shape[-1], min(values.shape[-1], most) + 1).astype(int))
    means = np.add.reduceat(values, ends[:-1], axis=-1) / np.diff(ends)
    return ends[1:] - 1, means


def _log_ticks(low: float, high: float) -> list[float]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    powers = range(first, last + 1)
    if math.log10(high / low) >= 3:
        kept = [e for e in powers if low <= 10.0**e <= high]
        return [10.0**e for e in kept[:: -(-len(kept) // 7)]]
    for steps in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8)):
        # through text: a tenth as 1e-1 is the nearest number to a tenth, ten to the minus one may not be
        ticks = [t for e in powers for t in (float(f"{s}e{e}") for s in steps) if low <= t <= high]
        if len(ticks) >= 3:
            return ticks
    return [float(f"{v:.3g}") for v in np.linspace(low, high, 5)[1:-1]]


def _finite(values: list) -> list[float]:
    return [float(v) for v in values if v is not None and math.isfinite(v)]
