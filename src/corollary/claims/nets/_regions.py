"""Pictures of functions on a square that several claims share."""

import altair as alt
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Figure, picture

SIDE = 24


def square(radius: float = 1.5, side: int = SIDE):
    """The points of a square about 0, as two flat arrays; none lies on an axis when `side` is even."""
    ticks = jnp.linspace(-radius, radius, side)
    x, y = jnp.meshgrid(ticks, ticks)
    return x.ravel(), y.ravel()


def off_axes(radius: float, margin: float, side: int = 24):
    """A grid on the square that keeps its distance from both axes; the corners nearest to 0 included."""
    half = jnp.linspace(margin, radius, side // 2)
    ticks = jnp.concatenate([-half[::-1], half])
    x, y = jnp.meshgrid(ticks, ticks)
    return x.ravel(), y.ravel()


def heat_maps(name: str, fields: dict, *, radius: float = 1.5, columns: int = 4, size: int = 80) -> Figure:
    """Functions with values from the `square`, side by side: white is the smallest value of all, dark the largest."""
    values = {label: np.asarray(field, float).ravel() for label, field in fields.items()}
    side = round(len(next(iter(values.values()))) ** 0.5)
    step = 2 * radius / (side - 1)
    half = 0.53 * step  # a little overlap, so that no seams show
    scale = alt.Scale(domain=[-radius - half, radius + half], nice=False)
    # one list a panel and its flattening in the picture: a tenth of the size of one record a cell
    rows = [
        {"panel": label, "v": [round(float(u), 3) for u in v], "i": list(range(side * side))}
        for label, v in values.items()
    ]
    low, high = float(min(v.min() for v in values.values())), float(max(v.max() for v in values.values()))
    chart = (
        alt.Chart(alt.Data(values=rows))
        .transform_flatten(["v", "i"])
        .transform_calculate(
            x=f"{-radius - half} + {step} * (datum.i % {side})",
            x2=f"{-radius + half} + {step} * (datum.i % {side})",
            y=f"{-radius - half} + {step} * floor(datum.i / {side})",
            y2=f"{-radius + half} + {step} * floor(datum.i / {side})",
        )
        .mark_rect(clip=True)
        .encode(
            alt.X("x:Q", title=None, scale=scale, axis=alt.Axis(tickCount=3, grid=False)),
            alt.X2("x2:Q"),
            alt.Y("y:Q", title=None, scale=scale, axis=alt.Axis(tickCount=3, grid=False)),
            alt.Y2("y2:Q"),
            alt.Color(
                "v:Q", legend=None, scale=alt.Scale(range=["#ffffff", "#1f6f8b"], interpolate="rgb", domain=[low, high])
            ),
        )
        .properties(width=size, height=size)
        .facet(facet=alt.Facet("panel:N", title=None, sort=list(values)), columns=columns)
    )
    return picture(name, chart)
