"""Pictures that several claims of this room share."""

import altair as alt
import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Figure, picture


def contours(
    name: str,
    loss,
    *,
    centre,
    radius: tuple[float, float],
    names: tuple[str, str],
    paths: dict[str, np.ndarray] | None = None,
    levels: int = 12,
) -> Figure:
    """The loss over a rectangle of two parameters as level bands, its minimiser, and paths across it."""
    side = 48
    us = np.linspace(centre[0] - radius[0], centre[0] + radius[0], side)
    vs = np.linspace(centre[1] - radius[1], centre[1] + radius[1], side)
    grid = jnp.stack(jnp.meshgrid(jnp.asarray(us), jnp.asarray(vs)), -1).reshape(-1, 2)
    values = np.asarray(jax.jit(jax.vmap(loss))(grid))
    # bands at equal steps of the square root, so that a quadratic has evenly spaced rings
    lowest = float(loss(jnp.asarray(centre)))
    height = np.sqrt(np.maximum(values - lowest, 0))
    band = np.floor(levels * height / height.max()) / levels
    du, dv = 1.06 * (us[1] - us[0]), 1.06 * (vs[1] - vs[0])  # a little overlap, so that no seams show
    cells = [
        {"u": round(float(u - du / 2), 6), "u2": round(float(u + du / 2), 6), "v": round(float(v - dv / 2), 6)}
        | {"v2": round(float(v + dv / 2), 6), "band": round(float(b), 3)}
        for (u, v), b in zip(np.asarray(grid), band, strict=True)
    ]
    domain_u, domain_v = [float(us[0]), float(us[-1])], [float(vs[0]), float(vs[-1])]
    x = alt.X("u:Q", title=names[0], scale=alt.Scale(domain=domain_u, nice=False))
    y = alt.Y("v:Q", title=names[1], scale=alt.Scale(domain=domain_v, nice=False))
    base = (
        alt.Chart(alt.Data(values=cells))
        .mark_rect(clip=True)
        .encode(
            x,
            alt.X2("u2:Q"),
            y,
            alt.Y2("v2:Q"),
            alt.Color("band:Q", legend=None, scale=alt.Scale(scheme="blues", reverse=True)),
        )
    )
    star = alt.Chart(alt.Data(values=[{"u": float(centre[0]), "v": float(centre[1])}])).mark_point(
        shape="cross", size=90, filled=True, color="#d1495b"
    )
    layers = [base, star.encode(x, y)]
    if paths:
        rows = [
            {"u": float(a), "v": float(b), "k": k, "path": label}
            for label, path in paths.items()
            for k, (a, b) in enumerate(np.asarray(path))
        ]
        colours = alt.Scale(domain=list(paths), range=["#ffb000", "#7b2cbf", "#2b9348"])
        colour = alt.Color("path:N", scale=colours, legend=alt.Legend(title=None, orient="bottom"))
        line = alt.Chart(alt.Data(values=rows)).mark_line(point={"size": 16}, strokeWidth=1.4, clip=True)
        layers.append(line.encode(x, y, colour, alt.Order("k:Q")))
    return picture(name, alt.layer(*layers).resolve_scale(color="independent").properties(width=300, height=190))
