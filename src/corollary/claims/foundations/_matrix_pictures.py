"""Pictures of matrices: what their columns reach, what they do to a disc, and themselves as images."""

import altair as alt
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Figure, picture


def parallelograms(*matrices) -> Figure:
    """Two columns as arrows, and what coefficients between 0 and 1 reach."""
    panels = []
    for v in map(np.asarray, matrices):
        corners = np.array([[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]) @ v.T
        outline = [{"x": float(x), "y": float(y), "k": k} for k, (x, y) in enumerate(corners)]
        arrows = [{"x": 0, "y": 0, "x2": float(a), "y2": float(b), "name": f"v{i + 1}"} for i, (a, b) in enumerate(v.T)]
        scale = alt.Scale(domain=[-4, 6])
        x, y = alt.X("x:Q", title=None, scale=scale), alt.Y("y:Q", title=None, scale=scale)
        area = alt.Chart(alt.Data(values=outline)).mark_line(filled=True, fillOpacity=0.25, strokeWidth=1)
        rule = alt.Chart(alt.Data(values=arrows)).mark_rule(strokeWidth=2.5, color="#d1495b")
        text = alt.Chart(alt.Data(values=arrows)).mark_text(dx=10, dy=-6, color="#d1495b")
        panels.append(
            alt.layer(
                area.encode(x, y, alt.Order("k:Q")),
                rule.encode(x, y, alt.X2("x2:Q"), alt.Y2("y2:Q")),
                text.encode(alt.X("x2:Q", scale=scale), alt.Y("y2:Q", scale=scale), alt.Text("name:N")),
            ).properties(width=190, height=190)
        )
    return picture("combinations with coefficients in [0, 1]: an area, and only a line", alt.hconcat(*panels))


def ellipses(parts) -> Figure:
    """The four stages of a singular value decomposition in the plane."""
    panels = []
    reach = float(jnp.abs(jnp.concatenate([parts.image, parts.scaled, parts.circle])).max()) * 1.1
    scale = alt.Scale(domain=[-reach, reach], nice=False)
    for name, curve in zip(("disc", "V' disc", "DV' disc", "A disc"), parts, strict=True):
        some = np.asarray(curve)[:: max(len(curve) // 120, 1)]
        rows = [{"x": float(x), "y": float(y), "k": k} for k, (x, y) in enumerate(some)]
        quarter = len(curve) // 4
        ends = [
            {"x": 0, "y": 0, "x2": float(curve[i][0]), "y2": float(curve[i][1]), "e": e}
            for i, e in ((0, "e1"), (quarter, "e2"))
        ]
        x, y = alt.X("x:Q", title=None, scale=scale, axis=None), alt.Y("y:Q", title=None, scale=scale, axis=None)
        line = alt.Chart(alt.Data(values=rows), title=name).mark_line(filled=True, fillOpacity=0.15, strokeWidth=1.5)
        arrow = alt.Chart(alt.Data(values=ends)).mark_rule(strokeWidth=2)
        colour = alt.Color("e:N", legend=None, scale=alt.Scale(range=["#d1495b", "#ffb000"]))
        layers = line.encode(x, y, alt.Order("k:Q")), arrow.encode(x, y, alt.X2("x2:Q"), alt.Y2("y2:Q"), colour)
        panels.append(alt.layer(*layers).properties(width=120, height=120))
    return picture("turn, stretch, turn: the images of the disc, e1 and e2", alt.hconcat(*panels))


def images(images: dict) -> Figure:
    """Matrices as grey images side by side, each under its name."""
    panels = []
    for name, image in images.items():
        cells = [
            {"x": j, "y": i, "v": round(float(v), 4)}
            for i, row in enumerate(np.asarray(image))
            for j, v in enumerate(row)
        ]
        chart = (
            alt.Chart(alt.Data(values=cells), title=name)
            .mark_rect()
            .encode(
                alt.X("x:O", axis=None),
                alt.Y("y:O", axis=None),
                alt.Color("v:Q", legend=None, scale=alt.Scale(scheme="greys")),
            )
        )
        panels.append(chart.properties(width=110, height=110))
    return picture("an image from its first k terms", alt.hconcat(*panels))


def level_curves(**pairs) -> Figure:
    """The curves where the form of a positive matrix is one, two matrices a panel: the larger has the inner curve."""
    phi = np.linspace(0, 2 * np.pi, 121)
    circle = np.stack([np.cos(phi), np.sin(phi)], 1)
    panels = []
    for name, matrices in pairs.items():
        rows = []
        for label, matrix in zip("AB", matrices, strict=True):
            edge = circle / np.sqrt(np.einsum("ki,ij,kj->k", circle, np.asarray(matrix), circle))[:, None]
            rows += [{"x": float(x), "y": float(y), "k": k, "matrix": label} for k, (x, y) in enumerate(edge)]
        chart = alt.Chart(alt.Data(values=rows), title=name).mark_line(strokeWidth=2)
        colour = alt.Color("matrix:N", legend=alt.Legend(title=None, orient="bottom"))
        x, y = alt.X("x:Q", title=None, axis=None), alt.Y("y:Q", title=None, axis=None)
        panels.append(chart.encode(x, y, alt.Order("k:Q"), colour).properties(width=150, height=150))
    return picture("where the quadratic form is one", alt.hconcat(*panels))
