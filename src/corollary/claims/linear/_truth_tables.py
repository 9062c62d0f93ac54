"""The sixteen Boolean functions of two inputs as tiles."""

import altair as alt
import numpy as np

from corollary.evidence import Figure, picture


def tiles(name: str, framed) -> Figure:
    """Table k has the binary digits of k as its values at (0,0), (0,1), (1,0), (1,1); `framed` are the special ones."""
    rows, frames = [], []
    for k in range(16):
        left, top = 2.8 * (k % 8), 2.8 * (k // 8)
        for i in range(4):
            u, v = left + i // 2, top + 1 - i % 2
            rows.append({"u": u, "u2": u + 1, "v": v, "v2": v + 1, "value": str((k >> (3 - i)) & 1)})
        frames.append({"u": left - 0.2, "u2": left + 2.2, "v": top - 0.2, "v2": top + 2.2, "on": bool(framed[k])})
    x = alt.X("u:Q", axis=None, scale=alt.Scale(domain=[-0.4, 22.2]))
    y = alt.Y("v:Q", axis=None, scale=alt.Scale(domain=[5.4, -0.4]))
    ends = [alt.X2("u2:Q"), alt.Y2("v2:Q")]
    shade = alt.Color("value:N", scale=alt.Scale(domain=["0", "1"], range=["#e8ecef", "#46525e"]), title="value")
    edge = alt.condition(alt.datum.on, alt.value("#2b9348"), alt.value("#ffffff"))
    cells = alt.Chart(alt.Data(values=rows)).mark_rect(stroke="white").encode(x, y, *ends, shade)
    border = (
        alt.Chart(alt.Data(values=frames)).mark_rect(fillOpacity=0, strokeWidth=2.5).encode(x, y, *ends, stroke=edge)
    )
    return picture(name, alt.layer(cells, border).properties(width=380, height=100))


def numbers_of(tables) -> np.ndarray:
    """The numbers of tables (count, 4) among the sixteen."""
    return np.asarray(tables).astype(int) @ np.array([8, 4, 2, 1])
