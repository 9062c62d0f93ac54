"""The live report of a watch: one HTML file without scripts, which the browser reads again and a new one replaces."""

import math
import os
import time
from html import escape
from pathlib import Path

import numpy as np

from corollary.audit._style import STYLE
from corollary.audit.finding import short

# seconds after which the browser looks again
AGAIN = 5
#: the titles of the courses, in the order of the page, and what a reader makes of the number
TITLES = {
    "loss": ("Loss of the batches", ""),
    "held_out_loss": ("Loss on held-out examples", "rises while the next one falls: overfitting"),
    "training_loss": ("Loss on training examples", "a fixed sample of them"),
    "fresh_loss": ("Loss on a fresh batch", "well above that of the batches: they repeat"),
    "update_size": ("Size of a step", ""),
    "distance_from_start": ("Distance from the start", ""),
    "gradient_norm": ("Norm of the gradient", ""),
    "overshoot": ("Overshoot of a step", "−1 too short to matter, 0 in the minimum, 1 as far beyond it"),
    "curvature_along_step": ("Curvature along the step", ""),
    "sharpness": ("Largest eigenvalue of the Hessian", "gradient descent needs it below 2 / learning rate"),
    "hessian_trace": ("Trace of the Hessian", ""),
    "norm": ("Noise of the batch gradient", "its squared relative error: above 1 it is mostly noise"),
    "inner_product": ("Noise along the gradient", ""),
    "orthogonality": ("Noise across the gradient", ""),
    "signal_to_noise": ("Signal to noise of a parameter", "mean over all of them"),
    "early_stopping": ("Evidence that nothing is left to learn", "above 0 the gradient is all noise"),
    "takeuchi": ("Noise over curvature", "trace of the gradients' covariance over that of the Hessian"),
}
LEFT_OUT = ("trace", "hessian_trace_error", "sharpness_error", "batch_loss")
OWN = """
main > .box { margin-top: 14px; }
.courses { display: grid; grid-template-columns: repeat(auto-fill, minmax(300px, 1fr)); gap: 12px; margin-top: 14px; }
.course { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 12px 14px; }
.course h3 { font-size: 15px; } .course header { display: flex; justify-content: space-between; gap: 10px; }
.course svg { width: 100%; height: 96px; display: block; } .course text { font-size: 11px; fill: var(--soft); }
.course path { fill: none; stroke: var(--link); stroke-width: 1.8; vector-effect: non-scaling-stroke; }
.course rect { fill: var(--link); } .course line { stroke: var(--line); vector-effect: non-scaling-stroke; }
.course p { margin: 2px 0 0; }
"""


def replaced(path: Path, watching) -> None:
    """Write the page beside the old one and put it in its place: a reader never sees half of it."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(page(watching), encoding="utf-8")
    os.replace(beside, path)


def page(watching) -> str:
    """The whole page."""
    listed = "".join(f"<li>{escape(alarm.sentence)}</li>" for alarm in watching.alarms)
    box = f"<ul>{listed}</ul>" if listed else "<p>Nothing, in all that was looked at.</p>"
    kinds = watching.names
    order = [n for n in TITLES if n in kinds] + [n for n in kinds if n not in TITLES and n not in LEFT_OUT]
    cards = "".join(_card(name, watching.course(name), watching.latest.get(name)) for name in order)
    looks = ", ".join(f"{count} × {kind}" for kind, count in watching.taken.items() if kind != "page")
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        f"<meta http-equiv='refresh' content='{AGAIN}'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>Step {watching.step}: corollary watch</title><style>{STYLE}{OWN}</style></head><body><main>"
        f"<header><h1>Training, step {watching.step:,}</h1>"
        f"<p class='sub'>Written {time.strftime('%d %B %Y, %H:%M:%S')}; "
        f"looks: {escape(looks) or 'none yet'}; {100 * watching.share_spent:.1f} % of the training time.</p></header>"
        f"<div class='box'><h2>What goes wrong</h2>{box}</div>"
        f"<div class='courses'>{cards}{_histogram(watching.histograms)}</div>"
        "<footer>Of healthy trainings at most one in a hundred is warned, however often it is looked at: docs/watch.md."
        "</footer></main></body></html>"
    )


def _card(name: str, points: np.ndarray, latest: float | None) -> str:
    title, note = TITLES.get(name, (name[:1].upper() + name[1:].replace("_", " "), ""))
    said = f"<p class='small'>{escape(note)}</p>" if note else ""
    value = "–" if latest is None else short(latest)
    return (
        f"<article class='course'><header><h3>{escape(title)}</h3><span class='number'>{value}</span></header>"
        f"{_line(points, title)}{said}</article>"
    )


def _line(points: np.ndarray, title: str) -> str:
    """The course as a line; on a logarithmic scale where positive values span more than a factor of 50."""
    points = points[np.isfinite(points).all(1)]
    if len(points) < 2:
        return "<p class='small'>not seen twice yet</p>"
    x, y = points.T
    log = y.min() > 0 and y.max() > 50 * y.min()
    up = np.log10(y) if log else y
    low, high = float(up.min()), float(up.max())
    if high - low < 1e-12 * max(abs(low), abs(high), 1e-300):
        low, high = low - 0.5, high + 0.5
    across = 300 * (x - x[0]) / max(x[-1] - x[0], 1)
    down = 8 + 68 * (high - up) / (high - low)
    drawn = "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(across, down, strict=True))
    ends = (float(y.max()), float(y.min()))
    about = f"{title}: from {short(float(y[0]))} to {short(float(y[-1]))} over the steps {x[0]:.0f} to {x[-1]:.0f}"
    return (
        f"<svg viewBox='0 0 300 96' role='img' preserveAspectRatio='none'><title>{escape(about)}</title>"
        f"<line x1='0' x2='300' y1='78' y2='78'/><path d='{drawn}'/></svg>"
        f"<p class='small'>{short(ends[1])} to {short(ends[0])}{', logarithmic' if log else ''}; steps {x[0]:.0f} to "
        f"{x[-1]:.0f}</p>"
    )


def _histogram(found: dict) -> str:
    if "histogram" not in found:
        return ""
    counts, end = np.asarray(found["histogram"], float), float(found["histogram_end"])
    heights = np.log1p(counts) / max(math.log1p(counts.max()), 1e-9)
    wide = 300 / len(counts)
    bars = "".join(
        f"<rect x='{i * wide:.1f}' y='{78 - 70 * h:.1f}' width='{wide - 1:.1f}' height='{70 * h:.1f}'/>"
        for i, h in enumerate(heights)
        if h > 0
    )
    title = "Entries of the examples' gradients"
    return (
        f"<article class='course'><header><h3>{title}</h3></header><svg viewBox='0 0 300 96' role='img' "
        f"preserveAspectRatio='none'><title>{title}</title><line x1='0' x2='300' y1='78' y2='78'/>{bars}</svg>"
        f"<p class='small'>from {short(-end)} to {short(end)}; heights are logarithms of counts</p></article>"
    )
