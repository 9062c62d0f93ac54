"""What attacks leave of the accuracy: both ends of it against the radius, beside random perturbations as large."""

import altair as alt
import numpy as np
from scipy.stats import binomtest

from corollary._charts import FITTED, MEASURED, PREDICTED, QUIET
from corollary.audit._sample import interval
from corollary.audit.finding import Finding, Premise, short
from corollary.audit.sections._attackable import LEAST, Attackable
from corollary.audit.sections._attacked import HIDDEN, RADII, Attacked
from corollary.audit.sections._smoothed_copy import Copy
from corollary.evidence import picture

HIDES, ATTACK, RANDOM = "gradients that lead attacks astray", "accuracy under attack", "accuracy under random noise"
# No classifier that knows both examples can go farther than half of their distance. Half of the right answers gone
# within a tenth of that is a network that follows what no person sees; within a fifth one to look at. Networks trained
# plainly on digits lose half at more than half of it (five seeds: 0.26 to 0.29 of the distance).
PROBLEM, LOOK, HALF = 0.05, 0.1, 0.5
# of slopes that are zero more than half leave an attack nothing to follow
DEAD = 0.5
# A random perturbation has next to nothing of its length along the one direction that matters, one over the root of the
# number of inputs: it does not turn a tenth of the answers of any network trained on digits, blobs or tables.
NOISY, BROKEN = 0.25, 0.5

FACTS = dict(
    theorem="Projected ascent finds what a search of all inputs finds, up to a hundredth, where that can be done: what "
    "it leaves bounds the robust accuracy above. No classifier that is right on two examples of different classes is "
    "right on all inputs within half of their distance of both.",
    claim="robustness.attacks.projected_ascent",
)


def judge_hidden(victim: Attackable, found: Attacked) -> Finding:
    """Whether gradients lead an attack to the nearest input of another class."""
    beaten, right = found.beaten, int(found.right.sum())
    if not right:
        return Finding(HIDES, "not applicable", "The network is right on none of the examples.", **_masked_facts())
    share, (low, high) = _share(beaten)
    dead = float(np.mean(np.asarray(found.dead)[found.right]))
    said = f"For {_percent(share)} of the examples that it is right on, attacks that only ask for outputs (by difference "
    said += "quotients, at random, on the straight way to another example) find a nearer input of another class than "
    said += "gradients do; "
    said += f"the slope is zero or not finite at {_percent(dead)} of them. "
    if low > HIDDEN:
        mark = "problem"
        end = "The gradients are hidden, and an attack by gradients flatters: believe attacks without gradients only."
    elif dead > DEAD:
        mark = "look"
        end = "There is no slope to follow, and no question finds another class: around its data the network is constant."
    else:
        mark, end = "fine", "Gradients lead attacks where they should."
    quotients = Premise(
        "asked by difference quotients", found.asked > 0, f"{found.asked} of {len(found.right)} examples, at one radius"
    )
    value, ends = 100 * share, (100 * low, 100 * high)
    return Finding(HIDES, mark, said + end, value, ends, unit="% of examples", premises=(quotients,), **_masked_facts())


def _masked_facts() -> dict:
    return dict(
        theorem="Rounding the inputs makes every gradient zero and changes hardly any distance: an attack by gradients "
        "fails there, and one that looks past the rounding succeeds nearly as before.",
        claim="robustness.black_box.hidden_gradients",
    )


def judge_attack(victim: Attackable, found: Attacked, copy: Copy | None) -> Finding:
    """The accuracy that is left at a radius, between what was attacked and what is certain."""
    rows = slice(len(found.nearest))
    right, held = found.right[rows], found.certified[rows]
    if right.sum() < LEAST:
        why = f"The network is right on fewer than {LEAST} of the examples: there is nothing to take from it."
        return Finding(ATTACK, "not applicable", why, **FACTS)
    clean = float(right.mean())
    left, (low, high) = _share(found.nearest > LOOK)
    sure = float(np.mean(right & (held > LOOK)))
    half = float(np.median(found.nearest[right]))
    mark = _mark(found.nearest, clean)
    unit = short(victim.unit)
    text = f"It is right on {_percent(clean)} of {len(right)} {_SAID[victim.split]} examples. Moved by a tenth of the distance "
    text += f"to the nearest example of another class (which is {unit}, and the inputs spread by {short(victim.spread)}), "
    text += f"it stays right on at most {_percent(left)}, which attacks leave, and on at least {_percent(sure)} for "
    text += f"certain. Half of its right answers are turned within {short(half)} of that distance; half of it is what "
    text += "any classifier can bear. "
    text += {
        "fine": "That is no more than the data allow to expect.",
        "look": "That is near: it follows small differences that the classes do not need.",
        "problem": "That is next to nothing: it follows differences far too small to matter.",
    }[mark]
    if found.hidden:
        flattering = float(np.mean(found.gradients[rows] > LOOK))
        text += f" (Gradients alone would leave {_percent(flattering)}: they are hidden.)"
    figure = picture("accuracy against the size of the perturbation", _chart(victim, found, copy))
    premises = (
        Premise("attacks on all examples", len(right) == victim.total, f"{len(right)} of {victim.total}"),
        Premise(
            "inputs of one scale, in the box of the data", None, f"from {short(victim.low)} to {short(victim.high)}"
        ),
    )
    return Finding(ATTACK, mark, text, left, (low, high), premises=premises, figure=figure, **FACTS)


_SAID = {"train": "training", "test": "test"}


def _mark(nearest, clean: float) -> str:
    """By the radius at which certainly less than half of the right answers are left."""
    for mark, radius in (("problem", PROBLEM), ("look", LOOK)):
        if _share(nearest > radius)[1][1] < HALF * clean:
            return mark
    return "fine"


def judge_random(victim: Attackable, found: Attacked) -> Finding:
    """What a perturbation of the same size does that nobody chose."""
    right = found.right
    facts = dict(
        theorem="Of a random perturbation of length r in d dimensions r/√d lies along the direction that changes the "
        "class; an attack puts all of it there.",
        claim="robustness.attacks_digits.small_perturbations",
    )
    if right.sum() < LEAST:
        why = f"The network is right on fewer than {LEAST} of the examples: there is nothing to take from it."
        return Finding(RANDOM, "not applicable", why, **facts)
    turned = 1 - found.random[:, right]
    at = RADII.index(LOOK)
    value, ends = float(turned[at].mean()), interval(turned[at])
    attacked = float(np.mean(found.nearest[right[: len(found.nearest)]] <= LOOK))
    mark = "problem" if ends[0] > BROKEN else "look" if ends[0] > NOISY else "fine"
    text = f"A random perturbation by a tenth of the distance to the nearest example of another class turns "
    text += f"{_percent(value)} of the right answers, an attack of that size {_percent(attacked)}; a random one as long as "
    text += f"that distance turns {_percent(float(turned[-1].mean()))}. "
    text += (
        "It takes no attacker: small noise is enough."
        if mark != "fine"
        else "It is the direction that does it, not the size."
        if attacked > 2 * value + 0.05
        else "Neither does much."
    )
    low, high = (min(max(end, 0.0), 1.0) for end in ends)
    return Finding(
        RANDOM, mark, text, 100 * (1 - value), (100 * (1 - high), 100 * (1 - low)), unit="% of right answers", **facts
    )


def _share(which) -> tuple[float, tuple[float, float]]:
    """The share of examples with Clopper and Pearson's interval at 95 %."""
    found = binomtest(int(which.sum()), len(which)).proportion_ci(0.95, "exact")
    return float(np.mean(which)), (float(found.low), float(found.high))


def _percent(share: float) -> str:
    return f"{short(100 * share)} %"


def _chart(victim: Attackable, found: Attacked, copy: Copy | None):
    """Clean, attacked and certified accuracy, with intervals, random perturbations, and the smoothed copy."""
    rows = slice(len(found.nearest))
    right, held = found.right[rows], found.certified[rows]
    grid = np.linspace(0, 0.6, 61)
    curves, bands = [], []

    def curve(name, which):
        for radius in grid:
            share, (low, high) = _share(which(radius))
            curves.append({"radius": float(radius), "accuracy": share, "what": name})
            bands.append({"radius": float(radius), "low": low, "high": high, "what": name})

    curve("attacked", lambda radius: found.nearest > radius)
    curve("certified", lambda radius: right & (held > radius))
    noisy = zip((0.0, *RADII), (found.right, *found.random), strict=True)
    points = [
        {"radius": r, "accuracy": float(np.mean(share)), "what": "random"} for r, share in noisy if r <= grid[-1]
    ]
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
    dashed = (
        alt.Chart(alt.Data(values=points)).mark_line(strokeDash=[5, 4]).encode(x=across, y=both, color=colour)
    )
    return alt.layer(limit, named, band, dashed, lines).properties(width=320, height=200)
