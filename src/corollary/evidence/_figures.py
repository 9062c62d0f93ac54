"""Every check draws itself: prediction and measurement in one picture, as Vega-Lite."""

from pathlib import Path
from typing import Any

from corollary._charts import (
    CONFIG,
    DASHES,
    FAILED,
    FITTED,
    HEIGHT,
    INK,
    MEASURED,
    PREDICTED,
    QUIET,
    SOLID,
    WIDTH,
    WRONG,
    away_from_the_axis,
    axis,
    log_scale,
    position_scale,
    scale,
)
from corollary._text import visible
from corollary.evidence._check import Check, Figure
from corollary.evidence._evidence import Evidence

NAMES = {"measured": MEASURED, "predicted": PREDICTED, "bound": PREDICTED, "fitted": FITTED, "wrong": WRONG}
# more on the left, where long labels may be wider than they were measured
PADDING = {"left": 26, "top": 14, "right": 14, "bottom": 14}
# how a bound reads in a line of text
WORDS = {"at_most": "at most", "at_least": "at least"}
APART = {"scale": {"color": "independent", "strokeDash": "independent"}}


def picture(name: str, chart: Any) -> Figure:
    """A figure of a claim's own, from an Altair chart."""
    # Altair's validation visits every value of the data, a second for a few thousand of them
    return Figure(name, chart.to_dict(validate=False))


def draw(thing: Check | Evidence) -> dict:
    """The Vega-Lite specification of a check, or of all evidence of a run (its own figures first).

    What compares one number with one number is a line of text below the pictures.
    """
    if isinstance(thing, Check):
        return _themed(_text([thing]) if _is_one_number(thing) else _draw_check(thing))
    drawn = [c for c in thing.checks if c.series]
    panels = [_titled(f.spec, f.name) for f in thing.figures]
    panels += [_draw_check(c) for c in drawn if not _is_one_number(c)]
    parts = [{"concat": panels, "columns": 3, "resolve": APART}] if panels else []
    if numbers := [c for c in drawn if _is_one_number(c)]:
        parts.append(_text(numbers))
    title = {
        "text": thing.title,
        "subtitle": f"{thing.claim} · seed {thing.seed} · {thing.verdict}",
        "anchor": "start",
        "fontSize": 15,
        "subtitleColor": QUIET,
        "offset": 14,
    }
    return _themed({"title": title, "vconcat": parts, "spacing": 30})


def svg(figure: Figure) -> str:
    """A figure as an SVG document."""
    import vl_convert

    spec = {k: v for k, v in figure.spec.items() if k not in ("$schema", "config")}
    return vl_convert.vegalite_to_svg(_written_out(_themed(spec)))


def save(evidence: Evidence, directory: Path | str, *, formats: tuple[str, ...] = ("png", "svg")) -> list[Path]:
    """Write the picture of `evidence` into `directory`, one file a format."""
    import vl_convert

    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    spec, written = _written_out(draw(evidence)), []
    for suffix in formats:
        path = directory / f"{evidence.claim}-seed{evidence.seed}.{suffix}"
        if suffix == "png":
            path.write_bytes(vl_convert.vegalite_to_png(spec, scale=2))
        else:
            path.write_text(vl_convert.vegalite_to_svg(spec), encoding="utf-8")
        written.append(path)
    return written


def _written_out(spec: Any) -> Any:
    """A specification whose texts hold no control characters: at one of them vl-convert aborts the whole process."""
    if isinstance(spec, str):
        return visible(spec).replace("\ufffe", r"\ufffe").replace("\uffff", r"\uffff")
    if isinstance(spec, dict):
        return {_written_out(key): _written_out(value) for key, value in spec.items()}
    return [_written_out(each) for each in spec] if isinstance(spec, list | tuple) else spec


def _draw_check(check: Check) -> dict:
    body = {
        "estimate": _interval,
        "frequency_at_most": _interval,
        "same_law": _curves,
        "rate": _curves,
    }.get(check.kind, _comparison)(check)
    said = [check.control] if check.control is not None else []
    said += [check.axes["note"]] if "note" in check.axes else []
    return _titled(body, _named(check), said, color=INK if check.passed else FAILED)


def _named(check: Check) -> str:
    failed = "" if check.passed else "FAILED: "
    return failed + ("control: " * (check.control is not None)) + ("printed: " * check.printed) + check.name


def _other(check: Check) -> str | None:
    return next((name for name in ("bound", "predicted") if name in check.series), None)


def _is_one_number(check: Check) -> bool:
    """Whether the measured values are all the same number up to rounding, compared with one and the same other."""
    other = _other(check)
    exact = check.kind in ("equal", "at_most", "at_least") and other is not None
    return exact and all(_are_one(check.series[name]) for name in ("measured", other))


def _are_one(values: list[float]) -> bool:
    return max(values) - min(values) <= 1e-9 * max(map(abs, values))


def _text(checks: list[Check]) -> dict:
    """Lines of text: what was measured and what it was compared with."""
    rows = []
    for check in checks:
        other, count = _other(check), len(check.series["x"])
        measured, expected = check.series["measured"][0], check.series[other][0]
        # as many digits as it takes to tell them apart
        digits = next((d for d in (6, 9, 12) if f"{measured:.{d}g}" != f"{expected:.{d}g}"), 6)
        words = other if check.kind == "equal" else ("" if check.outcome == "passed" else "not ") + WORDS[check.kind]
        line = f"measured {measured:.{digits}g}, {words} {expected:.{digits}g}"
        said = [line + (", everywhere" if count > 1 else "")]
        said += [check.control] if check.control is not None else []
        said += [check.axes["note"]] if "note" in check.axes else []
        colour = INK if check.passed else FAILED
        rows.append({"line": len(rows), "text": _named(check), "weight": "bold", "colour": colour})
        rows.append({"line": len(rows), "text": " · ".join(said), "weight": "normal", "colour": QUIET})
    y_scale = {"domain": [len(rows), 0], "nice": False, "zero": False}
    layers = [
        {
            "transform": [{"filter": f"datum.weight == '{weight}'"}],
            "mark": {"type": "text", "align": "left", "baseline": "top", "x": 0, "fontSize": 12, "fontWeight": weight},
            "encoding": {
                "y": {"field": "line", "type": "quantitative", "axis": None, "scale": y_scale},
                "text": {"field": "text"},
                "color": {"field": "colour", "type": "nominal", "scale": None, "legend": None},
            },
        }
        for weight in ("bold", "normal")
    ]
    return {"width": WIDTH, "height": 18 * len(rows), "data": {"values": rows}, "layer": layers}


def _comparison(check: Check) -> dict:
    """`equal`, `at_most`, `at_least`, `monotone`: along an axis, or against each other."""
    s, other = check.series, _other(check)
    if other is None or check.axes.get("x") is not None or len(set(s[other])) == 1:
        return _curves(check)
    rows = [{other: p, "measured": m} for p, m in zip(s[other], s["measured"], strict=True)]
    both = s[other] + s["measured"]
    shared = scale(both)
    encoding = {
        side: {"field": field, "type": "quantitative", "scale": shared, "axis": axis(shared, both)}
        for side, field in (("x", other), ("y", "measured"))
    }
    diagonal = {
        "data": {"values": [{other: end, "measured": end} for end in (min(both), max(both))]},
        "mark": {"type": "line", "color": PREDICTED, "strokeDash": DASHES},
        "encoding": encoding,
    }
    points = {
        "data": {"values": rows},
        "mark": {"type": "point", "filled": True, "color": MEASURED, "opacity": 0.75, "size": 28},
        "encoding": encoding,
    }
    return {"width": WIDTH, "height": HEIGHT, "layer": [diagonal, points]}


def _curves(check: Check) -> dict:
    """Lines over a common axis; the measured values as points where they are few."""
    s = check.series
    present = [name for name in NAMES if name in s]
    # instances without an order are points; so are few values along an axis
    few = len(set(s["x"])) <= 40 or (check.axes.get("x") is None and check.kind in ("equal", "at_most", "at_least"))
    logarithmic = check.axes.get("scale")
    everything = [v for name in present for v in s[name]]
    x_scale = log_scale(s["x"]) if logarithmic == "log-log" else position_scale(s["x"])
    x_scale = away_from_the_axis(x_scale) if few else x_scale
    y_scale = {"zero": False} if check.kind == "same_law" else log_scale(everything) if logarithmic else None
    y_scale = scale(everything) if y_scale is None else y_scale
    instance = s.get("instance", [0] * len(s["x"]))
    encoding = {
        "x": {
            "field": "x",
            "type": "quantitative",
            "title": check.axes.get("x")
            or {"same_law": "value", "rate": "size", "monotone": "position"}.get(check.kind, "instance"),
            "scale": x_scale,
            "axis": axis(x_scale, s["x"]),
        },
        "y": {
            "field": "y",
            "type": "quantitative",
            "title": None,
            "scale": y_scale,
            "axis": axis(y_scale, everything),
        },
        "detail": {"field": "instance", "type": "nominal"},
    }
    rows = [
        {"x": s["x"][i], "y": s[name][i], "instance": instance[i], "series": name}
        for name in present
        for i in range(len(s["x"]))
        if s[name][i] is not None and not (y_scale.get("type") == "log" and s[name][i] <= 0)
    ]
    # points lie on top of the lines, a measured line below the dashes of what was predicted
    kinds = [(present, False)]
    if few:
        kinds = [([name for name in present if name != "measured"], False), (["measured"], True)]
    layers = [
        {
            "data": {"values": [row for row in rows if row["series"] in names]},
            "mark": {"type": "point", "filled": True, "size": 34} if points else {"type": "line", "strokeWidth": 2},
            "encoding": encoding | _legend(names, points, alone=len(present) == 1),
        }
        for names, points in kinds
        if names
    ]
    # dots and lines have legends of their own: in a common one the dashes are lost
    return {"width": WIDTH, "height": HEIGHT, "layer": layers, "resolve": APART}


def _legend(names: list[str], points: bool, *, alone: bool) -> dict:
    """Colours by series, and dashes for lines that were not measured, in the picture and in its legend."""
    form = {} if points else {"symbolType": "stroke", "symbolSize": 300, "symbolStrokeWidth": 2}
    key = {
        "field": "series",
        "type": "nominal",
        "legend": None if alone else {"title": None, "orient": "bottom", "clipHeight": 12, **form},
    }
    colour = {"color": key | {"scale": {"domain": names, "range": [NAMES[name] for name in names]}}}
    dashes = {"domain": names, "range": [SOLID if name == "measured" else DASHES for name in names]}
    return colour if points else colour | {"strokeDash": key | {"scale": dashes}}


def _interval(check: Check) -> dict:
    """Measured means or frequencies with their intervals, the prediction, and the wrong value it excludes."""
    s, other = check.series, _other(check)
    names = ["measured", other] + (["wrong"] if "wrong" in s else [])
    rows = [{"entry": i} | {name: s[name][i] for name in [*names, "low", "high"]} for i in range(len(s["measured"]))]
    y = {
        "field": "entry",
        "type": "ordinal",
        "title": None if len(rows) == 1 else "instance",
        "axis": None if len(rows) == 1 else {"ticks": False},
    }
    everything = [v for name in [*names, "low", "high"] for v in s[name]]
    across = scale(everything)
    across = across if across.get("type") == "log" else {"zero": False, "padding": 8}

    def at(name: str, **mark) -> dict:
        return {
            "mark": {"filled": True, "opacity": 1, **mark},
            "encoding": {
                "x": {
                    "field": name,
                    "type": "quantitative",
                    "title": None,
                    "scale": across,
                    "axis": axis(across, everything),
                },
                "y": y,
                "color": {
                    "datum": name,
                    "scale": {"domain": names, "range": [NAMES[n] for n in names]},
                    "legend": {"title": None, "orient": "bottom"},
                },
            },
        }

    bar = {
        "mark": {"type": "rule", "strokeWidth": 3, "color": MEASURED},
        "encoding": {"x": {"field": "low", "type": "quantitative", "scale": across}, "x2": {"field": "high"}, "y": y},
    }
    layers = [bar, at("measured", type="point", size=60), at(other, type="tick", thickness=3, size=26)]
    if "wrong" in s:
        layers.append(at("wrong", type="point", shape="cross", size=70))
    return {"width": WIDTH, "height": min(HEIGHT, 50 + 35 * len(rows)), "data": {"values": rows}, "layer": layers}


def _titled(spec: dict, title: str, said: list[str] = (), color: str = INK) -> dict:
    text = {"text": _wrapped(title, 48), "anchor": "start", "fontSize": 12, "fontWeight": "bold", "color": color}
    if said:
        text |= {"subtitle": [line for s in said for line in _wrapped(s, 56)]}
        text |= {"subtitleFontSize": 11, "subtitleColor": QUIET}
    bare = {k: v for k, v in spec.items() if k not in ("$schema", "config")}
    return bare | {"title": text}


def _wrapped(text: str, width: int) -> list[str]:
    import textwrap

    return textwrap.wrap(text, width)


def _themed(spec: dict) -> dict:
    schema = "https://vega.github.io/schema/vega-lite/v5.json"
    return {"$schema": schema, "background": "white", "padding": PADDING, "config": CONFIG} | spec
