"""Pictures that several claims of this room share."""

import altair as alt
import numpy as np

from corollary.evidence import Figure, picture


def curves(name, x, lines: dict, across: str = "x", up: str = "value") -> Figure:
    """Several curves over one axis."""
    rows = [{"x": float(a), "y": float(b), "curve": n} for n, ys in lines.items() for a, b in zip(x, ys, strict=True)]
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_line(strokeWidth=1.5)
        .encode(
            alt.X("x:Q", title=across),
            alt.Y("y:Q", title=up),
            alt.Color("curve:N", sort=list(lines), legend=alt.Legend(title=None, orient="bottom")),
        )
    )
    return picture(name, chart.properties(width=300, height=190))


def scatter(name, x, classes, *, line=None, names=("feature 1", "feature 2")) -> Figure:
    """Points of the plane coloured by class, and a line (two end points) through them."""
    x, classes = np.asarray(x), np.asarray(classes).astype(int)
    rows = [
        {"u": round(float(a), 4), "v": round(float(b), 4), "class": str(int(c))}
        for (a, b), c in zip(x, classes, strict=True)
    ]
    u = alt.X("u:Q", title=names[0], scale=alt.Scale(zero=False))
    v = alt.Y("v:Q", title=names[1], scale=alt.Scale(zero=False))
    layers = [
        alt.Chart(alt.Data(values=rows))
        .mark_circle(size=14, opacity=0.5)
        .encode(u, v, alt.Color("class:N", legend=alt.Legend(orient="bottom")))
    ]
    if line is not None:
        ends = [{"u": float(a), "v": float(b)} for a, b in np.asarray(line)]
        layers.append(alt.Chart(alt.Data(values=ends)).mark_line(color="#333", strokeDash=[4, 3]).encode(u, v))
    return picture(name, alt.layer(*layers).properties(width=300, height=190))
