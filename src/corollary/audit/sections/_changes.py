"""Noise, shift, scale and missing inputs, at sizes that are found in the data: changes that nobody chose."""

from typing import NamedTuple

import altair as alt
import numpy as np

from corollary._charts import MEASURED
from corollary.audit._sample import interval
from corollary.audit.finding import Finding, Premise, short
from corollary.audit.sections._attackable import Attackable
from corollary.evidence import picture

NAME = "noise, shift, scale and missing inputs"
# noise of a quarter of what each input varies by, and a tenth of the inputs missing
NOISE, MISSING = 0.25, 0.1
# of the right answers that the worst change costs: networks on digits lose a twentieth, small ones on few inputs up to
# a quarter
LOOK, PROBLEM = 0.4, 0.7
FACTS = dict(
    theorem="An error rate is that under the law that the examples were drawn from; under another law it can be any.",
    claim="generalization.bound.learned_is_not_fixed",
)


class Changes(NamedTuple):
    """For every change its size in words, and whether each example is right after it, (changes, n)."""

    right: np.ndarray
    names: tuple[str, ...]
    sizes: tuple[str, ...]
    after: np.ndarray


def measure(subject, victim: Attackable) -> Changes:
    rng = np.random.default_rng(0)  # of the data alone
    x = victim.x
    flat = x.reshape(len(x), -1).astype(float)
    columns, rows, sizes = flat.std(0), flat.mean(1), np.linalg.norm(flat, axis=1)
    shift = float(rows.std())
    varying = columns > 0  # what is the same in all examples is so after a change as well
    factor = float(np.clip(sizes.std() / max(sizes.mean(), 1e-30), 0.0, 0.9))
    gone = rng.random(flat.shape) < MISSING
    made = {
        "noise": ("of a quarter of each input's spread", [flat + NOISE * columns * rng.normal(size=flat.shape)]),
        "shift": (f"of all inputs by {short(shift)}", [flat + shift * varying, flat - shift * varying]),
        "scale": (f"by {short(1 - factor)} and {short(1 + factor)}", [flat * (1 - factor), flat * (1 + factor)]),
        "missing inputs": ("a tenth of the inputs, at their means", [np.where(gone, flat.mean(0), flat)]),
    }
    after = []
    for _, versions in made.values():
        found = [_right(subject, victim, version) for version in versions]
        after.append(min(found, key=np.mean))  # the worse of both directions
    said = tuple(size for size, _ in made.values())
    return Changes(_right(subject, victim, flat), tuple(made), said, np.array(after))


def _right(subject, victim, flat):
    return np.asarray(subject.predict(flat.reshape(victim.x.shape).astype(victim.x.dtype))) == victim.y


def judge(found: Changes) -> Finding:
    right = found.right
    lost = [float(1 - after[right].mean()) for after in found.after]
    worst = int(np.argmax(lost))
    ends = interval(1.0 - found.after[worst][right])
    mark = "problem" if ends[0] > PROBLEM else "look" if ends[0] > LOOK else "fine"
    said = ", ".join(
        f"{short(100 * share)} % to {name} ({size})"
        for name, size, share in zip(found.names, found.sizes, lost, strict=True)
    )
    text = f"Of its right answers it loses {said}. "
    text += (
        f"It has not learned to bear {found.names[worst]} of a size that the data themselves have: train with it."
        if mark != "fine"
        else "Changes of the size that the data themselves have cost little."
    )
    bars = [{"change": "none", "accuracy": float(right.mean())}]
    bars += [{"change": n, "accuracy": float(a.mean())} for n, a in zip(found.names, found.after, strict=True)]
    chart = (
        alt.Chart(alt.Data(values=bars))
        .mark_bar(color=MEASURED)
        .encode(
            x=alt.X("accuracy:Q", title="share that is right", scale=alt.Scale(domain=[0, 1])),
            y=alt.Y("change:N", title=None, sort=None),
        )
    )
    low, high = (min(max(end, 0.0), 1.0) for end in ends)
    return Finding(
        NAME, mark, text, 100 * lost[worst], (100 * low, 100 * high), unit="% of right answers lost to the worst",
        premises=(Premise("sizes as in the data", True, "spread of the inputs, of their means and of their lengths"),),
        figure=picture("accuracy after a change of the inputs", chart.properties(width=280, height=alt.Step(18))),
        headline=f"It does not bear {found.names[worst]}", **FACTS,
    )  # fmt: skip
