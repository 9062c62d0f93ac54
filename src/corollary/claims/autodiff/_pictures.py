"""Pictures that several claims of this room share."""

import altair as alt
import numpy as np

from corollary.evidence import Figure, picture


def curves(name: str, x, series: dict, *, titles: tuple[str, str], log: str = "") -> Figure:
    """Several curves over one axis; `log` is any of "x", "y", "xy". Values without a logarithm are left out."""
    xs = np.asarray(x, float)
    rows = [
        {"x": float(a), "y": float(b), "curve": label}
        for label, values in series.items()
        for a, b in zip(xs, np.asarray(values, float), strict=True)
        if b > 0 or "y" not in log
    ]
    kind = {axis: alt.Scale(type="log" if axis in log else "linear", zero=False, nice=False) for axis in "xy"}
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_line(strokeWidth=1.8, point={"size": 18} if len(xs) <= 40 else False)
        .encode(
            alt.X("x:Q", title=titles[0], scale=kind["x"]),
            alt.Y("y:Q", title=titles[1], scale=kind["y"]),
            alt.Color("curve:N", sort=list(series), legend=alt.Legend(title=None, orient="bottom")),
        )
    )
    return picture(name, chart.properties(width=300, height=190))
