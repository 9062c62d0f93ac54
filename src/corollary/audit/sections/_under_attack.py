"""What attacks leave of the accuracy: both ends of it against the radius, beside random perturbations as large."""

import altair as alt
import numpy as np

from corollary._charts import FITTED, MEASURED, PREDICTED, QUIET
from corollary.audit._sample import exact_interval, interval
from corollary.audit.finding import Finding, Premise, short
from corollary.audit.sections._attackable import Attackable
from corollary.audit.sections._attacked import RADII, Attacked
from corollary.audit.sections._smoothed_copy import Copy
from corollary.evidence import picture

HIDES, ATTACK, RANDOM = "gradients that lead attacks astray", "accuracy under attack", "accuracy under random noise"
# No classifier that knows both examples can go farther than half of their distance. Half of the right answers gone
# within a tenth of that is a network that follows what no person sees; within a fifth one to look at. Networks trained
# plainly on digits lose half at more than half of it (two seeds: 0.26 and 0.28 of the distance).
PROBLEM, LOOK, HALF = 0.05, 0.1, 0.5
# where more than half of the slopes are zero an attack has nothing to follow
DEAD = 0.5
# Of the right answers that random noise of a tenth of the distance turns. It has next to nothing of its length along
# the one direction that matters, one over the root of the number of inputs: networks trained on digits lose less than
# one in a hundred to it.
NOISY, BROKEN = 0.25, 0.5

FACTS = dict(
    theorem="Projected ascent finds what a search of all inputs finds, up to a hundredth, where that can be done: what "
    "it leaves bounds the robust accuracy above. No classifier that is right on two examples of different classes is "
    "right on all inputs within half of their distance of both.",
    claim="robustness.attacks.projected_ascent",
)
BLIND = dict(
    theorem="Rounding the inputs makes every gradient zero and changes hardly any distance: an attack by gradients "
    "fails there, and one that looks past the rounding succeeds nearly as before.",
    claim="robustness.black_box.hidden_gradients",
)
NOISE = dict(
    theorem="Of a random perturbation of length r in d dimensions r/√d lies along the direction that changes the "
    "class, of an attack all of it.",
    claim="robustness.attacks_digits.small_perturbations",
)


def judge_hidden(found: Attacked) -> Finding:
    """Whether gradients lead an attack to the nearest input of another class."""
    share, (low, high) = _share(found.beaten)
    dead = float(np.mean(found.dead[found.right]))
    said = (
        f"Attacks that only ask for outputs find a nearer input of another class than gradients do for "
        f"{_percent(share)} of the examples that it is right on; at {_percent(dead)} of them the slope is zero or not "
        "finite. "
    )
    mark, end = "fine", "Gradients lead attacks where they should."
    if found.hidden:
        mark = "problem"
        end = "The gradients are hidden, and an attack by gradients flatters: believe attacks without gradients only."
    elif dead > DEAD:
        mark = "look"
        end = "There is no slope to follow, and no question finds another class: around its data it is constant."
    asked = f"{found.asked} of {len(found.right)} examples"
    quotients = Premise("asked by difference quotients, at random and on the straight way", found.asked > 0, asked)
    headline = "Gradients lead attacks astray" if found.hidden else "It is constant around its data"
    given = dict(unit="% of examples", premises=(quotients,), headline=headline)
    return Finding(HIDES, mark, said + end, 100 * share, (100 * low, 100 * high), **given, **BLIND)


def judge_attack(victim: Attackable, found: Attacked, copy: Copy | None) -> Finding:
    """The accuracy that is left at a radius, between what was attacked and what is certain."""
    rows = slice(len(found.nearest))
    right = found.right[rows]
    clean = float(right.mean())
    left, (low, high) = _share(found.nearest > LOOK)
    sure = float(np.mean(right & (found.certified[rows] > LOOK)))
    half = float(np.median(found.nearest[right]))
    mark = _mark(found.nearest, clean)
    text = (
        f"Attacks of a tenth of the distance to the nearest example of another class leave at most {_percent(left)} of "
        f"{len(right)} {_SAID[victim.split]} examples right, of {_percent(clean)} without them; {_percent(sure)} are "
        f"certain. They turn half of its right answers within {short(half)} of that distance; beyond 0.5 of it no "
        "classifier can be right on both examples. "
    )
    text += {
        "fine": "It bears what is small against the data.",
        "look": "That is near: it follows small differences, which the classes do not need.",
        "problem": "That is next to nothing: it follows differences far too small to matter.",
    }[mark]
    if mark != "fine":
        text += " Train it against attacks (robustness.adversarial_loss)."
    if found.hidden:
        text += f" (Gradients alone would leave {_percent(float(np.mean(found.gradients[rows] > LOOK)))}.)"
    box = f"from {short(victim.low)} to {short(victim.high)}"
    return Finding(
        ATTACK,
        mark,
        text,
        left,
        (low, high),
        unit="of the examples",
        premises=(
            Premise(
                "one distance for all examples",
                None,
                f"its median, {short(victim.unit)}; spread {short(victim.spread)}",
            ),
            Premise("attacks on all examples", len(right) == victim.total, f"{len(right):,} of {victim.total:,}"),
            Premise("inputs of one scale, in the box of the data", None, box),
        ),
        figure=picture("accuracy against the size of the perturbation", _chart(found, copy)),
        headline=f"{'Tiny' if mark == 'problem' else 'Small'} changes turn its answers",
        **FACTS,
    )


_SAID = {"train": "training", "test": "test"}


def _mark(nearest, clean: float) -> str:
    """By the radius at which certainly less than half of the right answers are left."""
    for mark, radius in (("problem", PROBLEM), ("look", LOOK)):
        if _share(nearest > radius)[1][1] < HALF * clean:
            return mark
    return "fine"


def judge_random(found: Attacked) -> Finding:
    """What a perturbation of the same size does that nobody chose."""
    turned = 1 - found.random[:, found.right]
    at = RADII.index(LOOK)
    value, ends = float(turned[at].mean()), interval(turned[at])
    attacked = float(np.mean(found.nearest[found.right[: len(found.nearest)]] <= LOOK))
    mark = "problem" if ends[0] > BROKEN else "look" if ends[0] > NOISY else "fine"
    text = (
        "A random perturbation by a tenth of the distance to the nearest example of another class turns "
        f"{_percent(value)} of the right answers, an attack of that size {_percent(attacked)}; a random one as long as "
        f"that distance turns {_percent(float(turned[-1].mean()))}. "
    )
    if mark != "fine":
        text += "It takes no attacker: small noise is enough."
    elif attacked > 2 * value + 0.05:
        text += "It is the direction that does it, not the size."
    else:
        text += "Neither does much."
    low, high = (1 - min(max(end, 0.0), 1.0) for end in ends)
    kept = 100 * (1 - value), (100 * high, 100 * low)
    headline = "Random noise turns its answers"
    return Finding(RANDOM, mark, text, *kept, unit="% of right answers", headline=headline, **NOISE)


def _share(which) -> tuple[float, tuple[float, float]]:
    """The share of examples with Clopper and Pearson's interval at 95 %."""
    return float(np.mean(which)), exact_interval(which.sum(), len(which))


def _percent(share: float) -> str:
    return f"{short(100 * share)} %"


def _chart(found: Attacked, copy: Copy | None):
    """Clean, attacked and certified accuracy, with intervals, random perturbations, and the smoothed copy."""
    rows = slice(len(found.nearest))
    right, held = found.right[rows], found.certified[rows]
    grid = np.linspace(0, 0.6, 61)
    curves, bands = [], []

    def curve(name, which):
        """`which` says of every radius (rows) and example (columns) whether it stays right."""
        ends = exact_interval(which.sum(1), which.shape[1])
        for radius, share, low, high in zip(grid, which.mean(1), *ends, strict=True):
            curves.append({"radius": float(radius), "accuracy": float(share), "what": name})
            bands.append({"radius": float(radius), "low": float(low), "high": float(high), "what": name})

    curve("attacked", found.nearest > grid[:, None])
    curve("certified", right & (held > grid[:, None]))
    noisy = zip((0.0, *RADII), (found.right, *found.random), strict=True)
    points = [{"radius": r, "accuracy": float(np.mean(share)), "what": "random"} for r, share in noisy if r <= grid[-1]]
    if copy is not None:
        for radius in grid:
            share = float(np.mean(copy.right & (copy.radius > radius)))
            points.append({"radius": float(radius), "accuracy": share, "what": "smoothed copy, certified"})
    kinds = ["random", "attacked", "certified", *(["smoothed copy, certified"] if copy is not None else [])]
    colours = [QUIET, MEASURED, FITTED, PREDICTED][: len(kinds)]
    legend = alt.Legend(title=None, orient="bottom", columns=2, symbolType="stroke", symbolOpacity=1)
    colour = alt.Color("what:N", scale=alt.Scale(domain=kinds, range=colours), legend=legend)
    across = alt.X("radius:Q", title="size, in distances to the nearest example of another class")
    share = alt.Scale(domain=[0, 1])
    half = alt.Chart(alt.Data(values=[{"radius": 0.5, "accuracy": 0.9, "said": "half way"}]))
    limit = half.mark_rule(color=QUIET, strokeDash=[2, 3]).encode(x=across)
    named = half.mark_text(color=QUIET, align="left", dx=4).encode(x=across, y="accuracy:Q", text="said:N")
    band = (
        alt.Chart(alt.Data(values=bands))
        .mark_area(opacity=0.15)
        .encode(x=across, y=alt.Y("low:Q", scale=share, title="share that stays right"), y2="high:Q", color=colour)
    )
    both = alt.Y("accuracy:Q", scale=share, title="share that stays right")
    lines = alt.Chart(alt.Data(values=curves)).mark_line().encode(x=across, y=both, color=colour)
    dashed = alt.Chart(alt.Data(values=points)).mark_line(strokeDash=[5, 4]).encode(x=across, y=both, color=colour)
    return alt.layer(limit, named, band, dashed, lines).properties(width=320, height=200)
