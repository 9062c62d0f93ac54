"""Matrices and images as pictures."""

import altair as alt
import numpy as np

from corollary.evidence import Figure, picture


def image(name: str, values, *, across: str = "column", down: str = "row") -> Figure:
    """The entries of a matrix as colours, red above and blue below zero."""
    values = np.asarray(values)
    rows = [{"i": i, "j": j, "v": round(float(v), 5)} for (i, j), v in np.ndenumerate(values)]
    most = float(np.abs(values).max()) or 1.0
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_rect()
        .encode(
            alt.X("j:O", title=across, axis=alt.Axis(labels=False, ticks=False)),
            alt.Y("i:O", title=down, axis=alt.Axis(labels=False, ticks=False)),
            alt.Color("v:Q", title=None, scale=alt.Scale(scheme="redblue", domain=[-most, most], reverse=True)),
        )
    )
    height = 190
    return picture(name, chart.properties(width=min(300, height * values.shape[1] // values.shape[0]), height=height))
