"""Pictures of matrices that several claims share."""

import altair as alt
import numpy as np

from corollary.evidence import Figure, picture


def matrices(name: str, fields: dict, *, across: str, down: str, columns: int = 4, size: int = 130) -> Figure:
    """Matrices side by side: white is the smallest entry of all, dark the largest; row 0 is at the top."""
    values = {label: np.asarray(field, float) for label, field in fields.items()}
    low, high = min(v.min() for v in values.values()), max(v.max() for v in values.values())
    rows, width = next(iter(values.values())).shape
    # one list a panel and its flattening in the picture: a tenth of the size of one record a cell
    data = [
        {"panel": label, "v": [round(float(u), 3) for u in v.ravel()], "i": list(range(v.size))}
        for label, v in values.items()
    ]
    chart = (
        alt.Chart(alt.Data(values=data))
        .transform_flatten(["v", "i"])
        .transform_calculate(
            x=f"datum.i % {width} - 0.52",
            x2=f"datum.i % {width} + 0.52",
            y=f"floor(datum.i / {width}) - 0.52",
            y2=f"floor(datum.i / {width}) + 0.52",
        )
        .mark_rect(clip=True)
        .encode(
            alt.X("x:Q", title=across, scale=alt.Scale(domain=[-0.5, width - 0.5], nice=False)),
            alt.X2("x2:Q"),
            alt.Y("y:Q", title=down, scale=alt.Scale(domain=[rows - 0.5, -0.5], nice=False)),
            alt.Y2("y2:Q"),
            alt.Color(
                "v:Q",
                title=None,
                scale=alt.Scale(range=["#ffffff", "#1f6f8b"], interpolate="rgb", domain=[float(low), float(high)]),
            ),
        )
        .properties(width=size, height=size)
        .facet(facet=alt.Facet("panel:N", title=None, sort=list(values)), columns=columns)
    )
    return picture(name, chart)
