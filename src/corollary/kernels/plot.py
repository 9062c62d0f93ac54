"""A kernel matrix as a picture."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import ArrayLike, Float

from corollary._charts import HEIGHT
from corollary._validate import real, whole


def plot_kernel(k: Float[ArrayLike, "n m"], *, most: int = 100) -> Any:
    """An Altair chart of a kernel matrix $K(x_i,x_j)$, points numbered from 0, the first row on top.

    A matrix of more than `most` rows or columns is drawn as the means of its blocks.
    """
    import altair as alt

    k, most = np.asarray(real("k", k, "n m"), float), whole("most", most)
    tops, lefts = (np.arange(0, length, -(-length // most)) for length in k.shape)
    sums = np.add.reduceat(np.add.reduceat(k, tops, axis=0), lefts, axis=1)
    heights, widths = (np.diff([*starts, length]) for starts, length in zip((tops, lefts), k.shape, strict=True))
    means = sums / np.outer(heights, widths)
    rows = [
        {"row": int(i), "bottom": int(i + h), "column": int(j), "right": int(j + w), "kernel": float(means[a, b])}
        for a, (i, h) in enumerate(zip(tops, heights, strict=True))
        for b, (j, w) in enumerate(zip(lefts, widths, strict=True))
    ]
    side = alt.Axis(grid=False, tickMinStep=1, tickCount=5)
    # values of both signs get a scale that is white at zero
    largest = float(np.abs(means).max())
    signed = means.min() < -1e-6 * largest
    colours = alt.Scale(scheme="redblue", domain=[largest, -largest]) if signed else alt.Scale(scheme="viridis")
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_rect(strokeWidth=0)
        .encode(
            x=alt.X("column:Q", title="point", axis=side, scale=alt.Scale(domain=[0, k.shape[1]], nice=False)),
            x2="right:Q",
            y=alt.Y("row:Q", title="point", axis=side, scale=alt.Scale(domain=[k.shape[0], 0], nice=False)),
            y2="bottom:Q",
            color=alt.Color("kernel:Q", scale=colours),
        )
        .properties(width=HEIGHT, height=HEIGHT)
    )
