"""Which training examples a prediction is owed to, and how far that may be believed: influence, with its premises."""

from typing import NamedTuple

import altair as alt
import jax
import numpy as np
from scipy import stats

from corollary._charts import MEASURED, PREDICTED
from corollary.attribution import blame, continued_removal
from corollary.audit import _plan
from corollary.audit._sample import some
from corollary.audit.finding import Finding, Premise, short
from corollary.audit.sections._blind import blind_guess
from corollary.audit.sections._explained import Explained, listed
from corollary.audit.sections._importance import TOO_MUCH
from corollary.evidence import picture
from corollary.network.batches import count

BELIEVED, POINTS = "how far influence can be believed", "most harmful training example"
# up to so many parameters the curvature is decomposed whole; beyond, on the span of so many eigenvectors
DENSE, RANKS, PRODUCTS = 600, (64, 16), 2.5
# the fewest training examples that a curvature is taken from, and the share of a section's work for each part
FEWEST, SHARE = 64, 0.1
# Added to the curvature, as a share of the largest; sixty steps of half the largest stable one with a momentum of 0.9
# come near the minimum along larger curvatures than (1 - 0.9) / (0.5 · 60) = 1/300 of the largest, and no further.
DAMPING, STEP, STEPS, MOMENTUM = 1e-3, 0.5, 60, 0.9
# the retrainings, and how many of the removed points are harmful ones
REMOVED = 10
# What one Newton step would still take off the training loss, against all that training has taken off it: the scale on
# which the gradient is small. Networks trained to the end have a thousandth and less, one stopped on its way 0.03 and
# more. Healthy networks are stopped on their way as a rule, and retrainings bear influence out all the same
# (docs/calibration.md): it is marked where the rest is more than theirs.
FINISHED, LOOK = 0.03, 0.3
# Predictions with a true rank correlation of 0.8 come out below this one time in two hundred, of ten.
BORNE_OUT = 0.1


class Blamed(NamedTuple):
    """Influence on the explained examples (rows, examples), on the points themselves, premises, and retrainings.

    `rows` are numbers of training examples; `measured` are the changes of the mean loss of the worst mistakes without
    each of `removed` (places in `rows`), None where nothing was retrained. `unfinished` is what a Newton step would
    take off the training loss, as a share of what training has (None where that is not known).
    """

    rows: np.ndarray
    scores: np.ndarray
    own: np.ndarray
    worst: int
    unfinished: float | None
    residual: float
    gradient: float
    least: float
    largest: float
    removed: np.ndarray
    measured: np.ndarray | None
    total: int

    @property
    def effects(self) -> np.ndarray:
        """The predicted change of the mean loss of the worst mistakes without each training point."""
        return self.scores[:, : self.worst].mean(1)


def measure_blamed(subject, budget, found: Explained, key) -> Blamed | str:
    """Influence of the training examples; a sentence where it is not measured."""
    if (long := _plan.too_long(subject, budget)) is not None:
        return long
    plan = _planned(subject, budget)
    if plan is None:
        return TOO_MUCH
    rank, products, n = plan
    row_key, start_key = jax.random.split(key)
    rows = some(np.arange(count(subject.train)), n, row_key)
    train = subject.train if len(rows) == count(subject.train) else jax.tree.map(lambda a: a[rows], subject.train)
    test = jax.tree.map(lambda a: a[found.rows], subject.data(found.split))
    penalty = subject.weight_decay or 0.0
    batch = max(1, min(n, budget.memory // 8 // subject.size, _plan.batch_of(subject, budget, n)))
    given = dict(rank=rank, share=DAMPING, penalty=penalty, products=products, key=start_key, batch_size=batch)
    seen = blame(subject.network, subject.loss, train, test, trainable=subject.trainable, **given)
    # a point of a part counts for less among all
    part = n / subject.count()
    scores, own = (part * np.asarray(a, float) for a in (seen.scores, seen.own))
    premises = seen.premises
    numbers = [float(a) for a in (premises.gradient_norm, premises.least, premises.largest)]
    if not np.isfinite(scores).all() or not numbers[2] > 0:
        return "The curvature of the loss vanishes here, or is not finite: there is nothing that holds the weights."
    order = np.argsort(scores[:, : found.worst].mean(1), kind="stable")
    removed = np.unique(np.concatenate([order[: REMOVED // 2], order[-(REMOVED // 2) :]]))
    measured = None
    runs = (len(removed) + 1) * n
    if part == 1 and runs * STEPS * _plan.GRADIENT * _plan.forward(subject) <= SHARE * budget.work:
        at_once = max(1, min(len(removed) + 1, _plan.batch_of(subject, budget, runs) // n))
        given = dict(step=STEP / (numbers[2] + penalty), steps=STEPS, momentum=MOMENTUM, penalty=penalty)
        again = continued_removal(
            subject.network,
            subject.loss,
            train,
            test,
            removed,
            trainable=subject.trainable,
            batch_size=at_once,
            **given,
        )
        changes = np.asarray(again.changes, float)[:, : found.worst].mean(1)
        measured = changes if np.isfinite(changes).all() else None
    gained, residual = _gained(subject), float(np.median(np.asarray(seen.residual)))
    unfinished = None if gained is None else float(seen.gain) / gained
    given = rows, scores, own, found.worst, unfinished, residual, *numbers, removed, measured
    return Blamed(*given, subject.count())


def _gained(subject) -> float | None:
    """What training has taken off the loss of a blind guess, or of its start; None where neither is known."""
    blind = blind_guess(subject)
    if blind is None and subject.initial_params is not None:
        blind = subject.with_params(subject.initial_params).mean_loss("train")
    # one that has gained next to nothing is at its start, whatever its gradient
    return None if blind is None else max(blind - subject.mean_loss("train"), 1e-3 * abs(blind)) or None


def _planned(subject, budget) -> tuple[int | None, int, int] | None:
    """Eigenvectors (None for all), products and training examples within the budget; None if it allows too few."""
    most = min(count(subject.train), budget.examples)
    product = _plan.PRODUCT * _plan.forward(subject)
    if subject.size <= DENSE and most * subject.size * product <= SHARE * budget.work:
        return None, subject.size, most
    for rank in RANKS:
        products = int(PRODUCTS * rank)
        rows = int(min(most, SHARE * budget.work / (product * products)))
        # a basis, and its images while it is made anew
        if rows >= min(most, FEWEST) and 2 * (2 * rank + 24) <= _plan.vectors(subject, budget):
            return min(rank, subject.size), products, rows
    return None


def judge_believed(numbers: Blamed | str) -> Finding:
    """Predictions against retrainings where there are some, and the premises."""
    facts = dict(
        theorem="At a minimum of positive curvature the loss changes by the influence of a point when it is removed, "
        "up to a remainder of second order; where the gradient does not vanish there is a remainder of first order.",
        claim="attribution.influence.second_order_remainder",
    )
    if isinstance(numbers, str):
        return Finding(BELIEVED, "not applicable", numbers, **facts)
    left = numbers.unfinished
    if left is None and numbers.measured is None:
        why = "Nothing was retrained: that takes too long here, or does not stay finite; and without initial it is not "
        return Finding(BELIEVED, "not applicable", f"{why}known whether training is finished under this loss.", **facts)
    rest = (
        "not known"
        if left is None
        else f"{short(100 * left)} % of what training has taken off the loss is left to take"
    )
    premises = (
        Premise(
            "training is finished",
            None if left is None else left <= FINISHED,
            f"gradient {short(numbers.gradient)}; {rest}",
        ),
        Premise(
            "the curvature is positive",
            numbers.least > 0,
            f"from {short(numbers.largest)} to {short(numbers.least)} (Gauss and Newton), {DAMPING} of the first added",
        ),
        Premise(
            "the system is solved",
            numbers.residual < 0.1,
            f"{short(100 * numbers.residual)} % of a gradient lies outside the directions looked at",
        ),
    )
    if numbers.measured is None:
        value, ends, unit = 100 * left, None, "% of the training left"
        text, figure = "Nothing was retrained: that takes too long here, or does not stay finite. ", None
    else:
        predicted = numbers.effects[numbers.removed]
        value, ends, unit = *_rank_correlation(predicted, numbers.measured), "rank correlation"
        text = (
            f"Trained on without each of {len(predicted)} training examples, the mistakes change as predicted with a "
        )
        text += f"rank correlation of {short(value)}. "
        figure = picture("influence against retraining", _scatter(predicted, numbers))
    headline = "Retraining does not bear influence out"
    if left is not None and left > LOOK:
        headline = "Too far from a minimum for influence to be believed"
        mark, rest = "look", "more than" if left > 1 else f"{short(100 * left)} % of what"
        end = "Influence is unreliable here: this network was stopped far from a minimum, and a Newton step would "
        end += f"still take off {rest} training has taken off the loss. Train it further first."
    elif numbers.measured is not None and value < BORNE_OUT:
        mark, end = "look", "Influence is unreliable here: the retrainings do not bear it out."
    elif left is not None and left > FINISHED:
        mark, end = (
            "fine",
            "Influence holds near where this network was stopped, not for a training to the end: a Newton step would ",
        )
        end += f"still take off {short(100 * left)} % of what training has taken off the loss."
    else:
        mark, end = "fine", "Influence says which examples to look at, not by how much they matter."
    given = dict(unit=unit, premises=premises, figure=figure, headline=headline)
    return Finding(BELIEVED, mark, text + end, value, ends, exact=ends is None, **given, **facts)


def _rank_correlation(predicted, measured) -> tuple[float, tuple[float, float]]:
    """Spearman's, with Fisher's interval at 95 %."""
    n = len(predicted)
    if n < 4 or np.ptp(predicted) == 0 or np.ptp(measured) == 0:
        return 0.0, (-1.0, 1.0)
    value = float(stats.spearmanr(predicted, measured)[0])
    middle = np.arctanh(np.clip(value, -0.999, 0.999))
    # ranks spread a little more than numbers: 1.03 is Fieller's factor
    reach = 1.96 * 1.03 / (n - 3) ** 0.5
    return value, (float(np.tanh(middle - reach)), float(np.tanh(middle + reach)))


def judge_points(numbers: Blamed | str, found: Explained) -> Finding:
    """The training examples that the worst mistakes are owed to, and those that speak against them."""
    facts = dict(
        theorem="Removed, a training example changes the loss of another one by the product of both gradients in the "
        "inverse curvature, over the number of examples.",
        claim="attribution.influence.ranking_of_removals",
    )
    if isinstance(numbers, str):
        return Finding(POINTS, "not applicable", numbers, **facts)
    effects = numbers.effects
    order = np.argsort(effects, kind="stable")
    each = min(5, len(order))
    harmful, helpful = numbers.rows[order[:each]], numbers.rows[order[::-1][:each]]
    before = float(np.mean(found.losses[found.rows[: found.worst]]))
    text = (
        f"Most harmful to the {found.worst} worst mistakes are the training examples {listed(harmful)}, most helpful "
        f"{listed(helpful)}: without {harmful[0]} their mean loss, {short(before)}, is predicted to change by "
        f"{short(effects[order[0]])}, without {helpful[0]} by {short(effects[order[-1]])}."
    )
    seen = Premise(
        "measured on all training data",
        len(numbers.rows) == numbers.total,
        f"{len(numbers.rows):,} of {numbers.total:,}",
    )
    return Finding(
        POINTS, "fine", text, float(effects[order[0]]), exact=True, unit="in the mean loss", premises=(seen,), **facts
    )


def _scatter(predicted, numbers: Blamed):
    rows = [
        {"predicted": float(a), "measured": float(b), "what": "one training example"}
        for a, b in zip(predicted, numbers.measured, strict=True)
    ]
    ends = float(min(predicted.min(), numbers.measured.min())), float(max(predicted.max(), numbers.measured.max()))
    line = alt.Chart(alt.Data(values=[{"a": end} for end in ends])).mark_line(color=PREDICTED, strokeDash=[5, 4])
    points = (
        alt.Chart(alt.Data(values=rows))
        .mark_point(color=MEASURED, filled=True, size=50)
        .encode(
            x=alt.X("predicted:Q", title="predicted change of the mean loss of the mistakes"),
            y=alt.Y("measured:Q", title="measured by training on"),
        )
    )
    return (line.encode(x="a:Q", y="a:Q") + points).properties(width=280, height=200)
