"""What twice the data would bring, and what was learned by heart: trainings on parts of the data, as one program."""

from typing import NamedTuple

import altair as alt
import jax
import numpy as np

from corollary._charts import MEASURED, PREDICTED
from corollary.audit import _plan
from corollary.audit.action import QUANTITIES, Action, Effect, by_hand
from corollary.audit.finding import Finding, Premise, short
from corollary.audit.retrain import batch_of, steps_of
from corollary.audit.sections._again import again, judged, paired
from corollary.audit.sections._explained import listed
from corollary.evidence import picture
from corollary.generalization import LearningCurve, learning_curve
from corollary.network.batches import count

TWICE = {"error": "error with twice the data", "loss": "loss with twice the data"}
MEMORISED = "memorised examples"
# a quarter, half and all of the data in four orders; a twentieth of the work of a section
HALVINGS, DRAWS, SHARE = 2, 4, 0.05
# without test data a fifth of the training data takes their place
HELD, FEWEST = 0.2, 16
# more data are advised where they would take off a tenth or more; they cost more than a training
WORTH, COST = 0.1, 10.0


class Curve(NamedTuple):
    """A learning curve, what it counts, of how many examples, whether on test data, which examples are memorised.

    `memorised` are numbers of training examples, None where that is not defined.
    """

    curve: LearningCurve
    what: str
    examples: int
    tested: bool
    memorised: np.ndarray | None


def measure(subject, budget, start, key) -> Curve | str:
    """Trainings from `start` on parts of the data; a sentence where there are none."""
    if start is None:
        return "Neither initial nor init was given, so that training cannot start again: give one of them."
    split_key, curve_key = jax.random.split(key)
    data = paired(subject, "train")
    n = count(data[0])
    rows = np.arange(n)
    if subject.test is not None:
        new = paired(subject, "test")
    else:
        held, rows = np.split(np.asarray(jax.random.permutation(split_key, n)), [int(HELD * n)])
        data, new = (jax.tree.map(lambda a, r=r: a[r], data) for r in (rows, held))
    if min(len(rows), count(new[0])) < FEWEST:
        return f"Of fewer than {FEWEST} examples no curve can be made."
    runs = DRAWS * (HALVINGS + 1)
    looked = steps_of(subject) * (batch_of(subject) or len(rows)) * _plan.GRADIENT + n + count(new[0])
    if runs * looked * _plan.forward(subject) > SHARE * budget.work or _plan.vectors(subject, budget) < 16:
        return f"This was left out: {runs} trainings of this network take too long. --budget full measures it."
    given = dict(halvings=HALVINGS, draws=DRAWS, at_once=1, key=curve_key)
    curve = learning_curve(again(subject, start, len(rows)), data, new, loss=judged(subject), **given)
    if not np.isfinite(np.asarray(curve.new)).all():
        return "Trained again on parts of the data it does not stay finite."
    memorised = None
    if subject.classes is not None and data[1][1].ndim == 1:
        right = np.asarray(subject.predict("train"))[rows] == np.asarray(data[1][1])
        memorised = np.sort(rows[right & (curve.left_out() == 1)])
    what = "loss" if subject.classes is None else "error"
    return Curve(curve, what, len(rows), subject.test is not None, memorised)


def judge(found: Curve | str, what: str) -> Finding:
    facts = dict(
        theorem="With more examples the variance of what is learned falls, and its bias stays: a curve that still "
        "falls says that examples are missing, one that is flat that something else is.",
        claim="generalization.bias_variance.trade_off",
    )
    if isinstance(found, str):
        return Finding(TWICE[what], "not applicable", found, **facts)
    twice, means = found.curve.doubled(), found.curve.mean
    say = _per_cent if found.what == "error" else short
    where = "test data" if found.tested else "training data that were held out"
    start = "it errs on" if found.what == "error" else "the loss is"
    text = f"Trained again with a quarter, half and all of {found.examples:,} examples {start} "
    text += f"{', '.join(map(say, means[:-1]))} and {say(means[-1])} of the {where}: "
    if found.what == "loss":
        text = text.replace(" of the ", " on the ")
    low, high = _possible(found, twice.interval)
    text += f"with twice as many it would be {say(low)} to {say(high)}. "
    if high < means[-1]:
        text += "More data like these would help."
    elif worth(twice, means[-1]):
        text += "More data like these would probably help."
    else:
        text += "Twice the data would change little."
    premises = (
        Premise("the curve is convex in the logarithm of the number of examples", None),
        Premise("new examples are like those at hand", None),
    )
    figure = picture("learning curve", _chart(found, twice))
    return Finding(
        TWICE[found.what],
        "fine",
        text,
        min(max(twice.value, low), high),
        (low, high),
        unit="of the examples" if found.what == "error" else "",
        premises=premises,
        figure=figure,
        **facts,
    )


def _possible(found: Curve, interval) -> tuple[float, float]:
    """The part of the interval that an error can lie in: a line goes on below nothing and above everything."""
    if found.what == "loss":
        return interval
    return tuple(min(max(float(end), 0.0), 1.0) for end in interval)


def _chart(found: Curve, twice):
    """Every draw, their mean, and what is expected with twice the data."""
    losses, sizes = np.asarray(found.curve.new, float).mean(2), found.curve.sizes
    rows = [
        {"examples": int(n), "value": float(v), "draw": i}
        for i, row in enumerate(losses)
        for n, v in zip(sizes, row, strict=True)
    ]
    kinds = ["mean of the trainings", "expected"]
    mean = [
        {"examples": int(n), "value": float(v), "what": kinds[0]} for n, v in zip(sizes, found.curve.mean, strict=True)
    ]
    low, high = _possible(found, twice.interval)
    then = [
        {
            "examples": int(2 * sizes[-1]),
            "value": min(max(twice.value, low), high),
            "low": low,
            "high": high,
            "what": kinds[1],
        }
    ]
    scale = alt.Scale(type="log", base=2, domain=[0.9 * float(sizes[0]), 2.2 * float(sizes[-1])], nice=False)
    x = alt.X("examples:Q", title="examples", scale=scale, axis=alt.Axis(values=[*map(int, sizes), int(2 * sizes[-1])]))
    y = alt.Y("value:Q", title=f"{found.what} on new examples")
    colour = alt.Color(
        "what:N",
        scale=alt.Scale(domain=kinds, range=[MEASURED, PREDICTED]),
        legend=alt.Legend(title=None, orient="bottom"),
    )
    base = alt.Chart(alt.Data(values=rows)).mark_line(opacity=0.35, color=MEASURED, strokeWidth=1)
    chart = alt.layer(
        base.encode(x=x, y=y, detail="draw:N"),
        alt.Chart(alt.Data(values=mean)).mark_line(point=True).encode(x=x, y=y, color=colour),
        alt.Chart(alt.Data(values=then)).mark_rule().encode(x=x, y="low:Q", y2="high:Q", color=colour),
        alt.Chart(alt.Data(values=then)).mark_point(filled=True, opacity=1).encode(x=x, y=y, color=colour),
    )
    return chart.properties(width=320, height=180)


def judge_memorised(found: Curve | str) -> Finding:
    facts = dict(
        theorem="A network that can fit random labels can learn any example by heart: how one is answered by a "
        "training that has not seen it says what was learned from the others.",
        claim="generalization.experiments_random_labels.random_labels",
    )
    if isinstance(found, str) or found.memorised is None:
        why = found if isinstance(found, str) else "Examples without one class each are not right or wrong."
        return Finding(MEMORISED, "not applicable", why, **facts)
    some, n = found.memorised, found.examples
    if len(some):
        text = f"{_per_cent(len(some) / n)} of {n:,} training examples are answered rightly, but wrongly by every "
        text += "training on half of the data without them: the network knows them by heart. "
        text += f"The first are {listed(some[:5])}." if len(some) > 1 else f"It is example {some[0]}."
    else:
        text = f"None of {n:,} training examples is known by heart: what is answered rightly, some training on half of "
        text += "the data without it answers rightly too."
    premise = Premise("trained without one example alone", False, "half of the data were left out at once")
    return Finding(
        MEMORISED, "fine", text, 100 * len(some) / n, exact=True, unit="% of the examples", premises=(premise,), **facts
    )


def worth(twice, now: float) -> bool:
    """Whether more data are expected to take off a share of the loss that is worth them."""
    return now - twice.value > WORTH * now


def collect(subject, found: Curve | str, finding) -> Action | None:
    """More examples, where the curve still falls; a person must find them."""
    if isinstance(found, str) or not found.tested:
        return None
    twice = found.curve.doubled()
    quantity = "test error" if found.what == "error" else "test loss"
    now = QUANTITIES[quantity](subject)
    if not worth(twice, float(found.curve.mean[-1])) or twice.value >= now:
        return None
    low, high = _possible(found, twice.interval)
    effect = Effect(quantity, now, min(max(twice.value, low), high), (low, high))
    return Action(f"collect {found.examples:,} more examples", finding.name, effect, "short run", by_hand, cost=COST)


def _per_cent(share) -> str:
    return f"{100 * float(share):.3g} %"
