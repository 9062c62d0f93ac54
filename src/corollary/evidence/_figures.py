"""Every check draws itself: prediction and measurement in one picture, as Vega-Lite."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from corollary.evidence._check import Check, Figure
from corollary.evidence._evidence import Evidence

MEASURED, PREDICTED, WRONG, INK, FAILED = "#1f6f8b", "#d1495b", "#9aa0a6", "#22313f", "#b00020"
NAMES = {"measured": MEASURED, "predicted": PREDICTED, "bound": PREDICTED, "fitted": "#66a182", "wrong": WRONG}
WIDTH, HEIGHT = 300, 190


def picture(name: str, chart: Any) -> Figure:
    """A figure of a claim's own, from an Altair chart."""
    # Altair's validation visits every value of the data, a second for a few thousand of them
    return Figure(name, chart.to_dict(validate=False))


def draw(thing: Check | Evidence) -> dict:
    """The Vega-Lite specification of a check, or of all evidence of a run (its own figures first)."""
    if isinstance(thing, Check):
        return _themed(_draw_check(thing))
    panels = [_titled(f.spec, f.name) for f in thing.figures]
    panels += [_draw_check(c) for c in thing.checks if c.series]
    title = {
        "text": thing.title,
        "subtitle": f"{thing.claim} · seed {thing.seed} · {thing.verdict}",
        "anchor": "start",
        "fontSize": 15,
        "subtitleColor": "#5f6b76",
        "offset": 14,
    }
    return _themed({"title": title, "concat": panels, "columns": 3, "resolve": {"scale": {"color": "independent"}}})


def svg(figure: Figure) -> str:
    """A figure as an SVG document."""
    import vl_convert

    spec = {k: v for k, v in figure.spec.items() if k not in ("$schema", "config")}
    return vl_convert.vegalite_to_svg(_themed(spec))


def save(evidence: Evidence, directory: Path | str, *, formats: tuple[str, ...] = ("png", "svg")) -> list[Path]:
    """Write the picture of `evidence` into `directory`, one file a format."""
    import vl_convert

    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    spec, written = draw(evidence), []
    for suffix in formats:
        path = directory / f"{evidence.claim}-seed{evidence.seed}.{suffix}"
        if suffix == "png":
            path.write_bytes(vl_convert.vegalite_to_png(spec, scale=2))
        else:
            path.write_text(vl_convert.vegalite_to_svg(spec), encoding="utf-8")
        written.append(path)
    return written


def _draw_check(check: Check) -> dict:
    body = {
        "estimate": _interval,
        "frequency_at_most": _interval,
        "same_law": _curves,
        "rate": _curves,
    }.get(check.kind, _comparison)(check)
    failed = "" if check.passed else "FAILED: "
    if check.control is not None:
        return _titled(body, f"{failed}control: {check.name}", check.control, color=FAILED if failed else INK)
    name = f"printed: {check.name}" if check.printed else check.name
    return _titled(body, failed + name, color=FAILED if failed else INK)


def _comparison(check: Check) -> dict:
    """`equal`, `at_most`, `at_least`, `monotone`: along an axis, against each other, or two bars."""
    s = check.series
    other = "bound" if "bound" in s else "predicted" if "predicted" in s else None
    if len(s["x"]) == 1 and other is not None:
        return _bars([("measured", s["measured"][0]), (other, s[other][0])])
    if other is None or check.axes.get("x") is not None or len(set(s[other])) == 1:
        return _curves(check)
    rows = [{other: p, "measured": m} for p, m in zip(s[other], s["measured"], strict=True)]
    ends = [min(s[other] + s["measured"]), max(s[other] + s["measured"])]
    scale = _scale(s[other] + s["measured"])
    axis = _axis(scale, ends)
    x = {"field": other, "type": "quantitative", "scale": scale, "axis": axis}
    y = {"field": "measured", "type": "quantitative", "scale": scale, "axis": axis}
    diagonal = {
        "data": {"values": [{other: e, "measured": e} for e in ends]},
        "mark": {"type": "line", "color": PREDICTED, "strokeDash": [5, 4]},
        "encoding": {"x": x, "y": y},
    }
    points = {
        "data": {"values": rows},
        "mark": {"type": "point", "filled": True, "color": MEASURED, "opacity": 0.75, "size": 28},
        "encoding": {"x": x, "y": y},
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
    x_scale = {"type": "log"} if logarithmic == "log-log" else {"zero": False}
    y_scale = {"type": "log"} if logarithmic else {"zero": False} if check.kind == "same_law" else _scale(everything)
    count = len(s["x"])
    instance = s.get("instance", [0] * count)
    colour = {
        "field": "series",
        "type": "nominal",
        "scale": {"domain": present, "range": [NAMES[n] for n in present]},
        "legend": {"title": None, "orient": "bottom"},
    }
    layers = []
    # points lie on top of the lines, a measured line below the dashes of what was predicted
    for name in sorted(present, key=lambda n: (n == "measured") == few):
        rows = [
            {"x": s["x"][i], "y": s[name][i], "instance": instance[i], "series": name}
            for i in range(count)
            if s[name][i] is not None and not (y_scale.get("type") == "log" and s[name][i] <= 0)
        ]
        if name == "measured" and few:
            mark = {"type": "point", "filled": True, "size": 34}
        else:
            mark = {"type": "line", "strokeWidth": 2, "strokeDash": [1, 0] if name == "measured" else [5, 4]}
        layers.append(
            {
                "data": {"values": rows},
                "mark": mark,
                "encoding": {
                    "x": {
                        "field": "x",
                        "type": "quantitative",
                        "title": check.axes.get("x") or ("value" if check.kind == "same_law" else "index"),
                        "scale": x_scale,
                        "axis": _axis(x_scale, s["x"]),
                    },
                    "y": {
                        "field": "y",
                        "type": "quantitative",
                        "title": None,
                        "scale": y_scale,
                        "axis": _axis(y_scale, everything),
                    },
                    "detail": {"field": "instance", "type": "nominal"},
                    "color": colour,
                },
            }
        )
    return {"width": WIDTH, "height": HEIGHT, "layer": layers}


def _interval(check: Check) -> dict:
    """Measured means or frequencies with their intervals, the prediction, and the wrong value it excludes."""
    s = check.series
    other = "bound" if "bound" in s else "predicted"
    rows = [
        {"entry": i, "measured": s["measured"][i], "low": s["low"][i], "high": s["high"][i], other: s[other][i]}
        | ({"wrong": s["wrong"][i]} if "wrong" in s else {})
        for i in range(len(s["measured"]))
    ]
    y = {"field": "entry", "type": "ordinal", "title": None, "axis": None if len(rows) == 1 else {"ticks": False}}
    names = ["measured", other] + (["wrong"] if "wrong" in s else [])

    def at(name: str, **mark) -> dict:
        return {
            "mark": {"filled": True, "opacity": 1, **mark},
            "encoding": {
                "x": {"field": name, "type": "quantitative", "title": None, "scale": {"zero": False}},
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
        "encoding": {
            "x": {"field": "low", "type": "quantitative", "scale": {"zero": False}},
            "x2": {"field": "high"},
            "y": y,
        },
    }
    layers = [bar, at("measured", type="point", size=60), at(other, type="tick", thickness=3, size=26)]
    if "wrong" in s:
        layers.append(at("wrong", type="point", shape="cross", size=70))
    return {"width": WIDTH, "height": HEIGHT, "data": {"values": rows}, "layer": layers}


def _bars(pairs: list[tuple[str, float]]) -> dict:
    rows = [{"series": n, "value": v, "label": f"{v:.6g}"} for n, v in pairs]
    names = [n for n, _ in pairs]
    y = {"field": "series", "type": "nominal", "title": None, "sort": names, "axis": {"ticks": False, "domain": False}}
    bar = {
        "mark": {"type": "bar", "height": 22},
        "encoding": {
            "x": {"field": "value", "type": "quantitative", "title": None},
            "y": y,
            "color": {
                "field": "series",
                "type": "nominal",
                "scale": {"domain": names, "range": [NAMES[n] for n in names]},
                "legend": None,
            },
        },
    }
    text = {
        "mark": {"type": "text", "align": "left", "dx": 6, "color": INK},
        "encoding": {"x": {"field": "value", "type": "quantitative"}, "y": y, "text": {"field": "label"}},
    }
    return {"width": WIDTH, "height": HEIGHT, "data": {"values": rows}, "layer": [bar, text]}


def _scale(values: list) -> dict:
    """Logarithmic where positive values span more than three decades, else linear."""
    known = [v for v in values if v is not None]
    if not known:
        return {"zero": False}
    low, high = min(known), max(known)
    if low > 0 and high / low > 1e3:
        return {"type": "log"}
    if high - low < 1e-6 * max(abs(low), abs(high)):  # nothing but rounding: do not zoom in on it
        return {"zero": False, "domain": sorted([0.9 * low, 1.1 * high]), "nice": False}
    return {"zero": False}


def _axis(scale: dict, values: list) -> dict:
    """On a logarithmic scale a grid line a decade (fewer where there are many), written as a power of ten."""
    if scale.get("type") != "log":
        largest = max((abs(v) for v in values if v is not None), default=1.0)
        return {} if largest == 0 or 1e-3 < largest < 1e6 else {"format": "~e"}
    known = [v for v in values if v is not None and v > 0]
    if not known:
        return {}
    low, high = math.floor(math.log10(min(known))), math.ceil(math.log10(max(known)))
    if high - low < 3:
        return {"format": "~g", "tickCount": 5}
    return {"values": [10.0**e for e in range(low, high + 1, max(1, (high - low) // 6))], "format": "~e"}


def _titled(spec: dict, title: str, subtitle: str | None = None, color: str = INK) -> dict:
    text = {"text": _wrapped(title, 48), "anchor": "start", "fontSize": 12, "fontWeight": "bold", "color": color}
    if subtitle:
        text |= {"subtitle": _wrapped(subtitle, 56), "subtitleFontSize": 11, "subtitleColor": "#5f6b76"}
    bare = {k: v for k, v in spec.items() if k not in ("$schema", "config")}
    return bare | {"title": text}


def _wrapped(text: str, width: int) -> list[str]:
    import textwrap

    return textwrap.wrap(text, width)


def _themed(spec: dict) -> dict:
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "background": "white",
        "padding": 14,
        "config": {
            "font": "Helvetica, Arial, sans-serif",
            "title": {"color": INK},
            "axis": {
                "gridColor": "#e8ecef",
                "labelColor": "#46525e",
                "titleColor": "#46525e",
                "domainColor": "#b6c0c8",
            },
            "view": {"stroke": None},
        },
    } | spec
