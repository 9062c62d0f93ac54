"""Did it learn features? The tangent kernel before and after training: lazy, feature-learning, or between."""

import altair as alt
import jax
import numpy as np

from corollary import kernels
from corollary._charts import MEASURED, WRONG
from corollary.audit import _plan
from corollary.audit._answer import because, by_name, first
from corollary.audit._linear import linear
from corollary.audit._tangent import aims, known, measure, whole
from corollary.audit.action import advise
from corollary.audit.finding import Finding, Premise, short
from corollary.audit.retrain import steps_of
from corollary.audit.sections import _regime_predictions as predictions
from corollary.audit.sections import _unmoved
from corollary.audit.sections._axes import logarithmic
from corollary.audit.sections._blind import learned_by_loss
from corollary.audit.sections._first_steps import SLOW
from corollary.audit.sections._start import losses_at, start_of
from corollary.audit.sections._treatments import knows_start, retraining, suited
from corollary.evidence import picture
from corollary.network.losses import IGNORED

TITLE = "Did it learn features?"
EXPLAINS = {
    # a constant has not come down, and is taken for slow
    "most frequent answer": ("variation of the tangent kernel", "median margin", "gradient norm", *SLOW),
    "variation of the outputs": ("variation of the tangent kernel", "gradient norm", *SLOW),
    "distance travelled": (
        "training loss against a blind guess",
        "regime",
        "gradient norm",
        "median margin",
        "most frequent answer",
    ),
    # what is left out of a training makes the rest slow, and leaves it far from a minimum of the whole
    _unmoved.NAME: (
        *SLOW,
        "chance to halve the loss of a blind guess",
        "regime",
        "gradient norm",
        "least curvature",
        "sharpness against 2/η",
        "rank of the layers",
        "median margin",
        "most frequent answer",
        "calibration error",
        "how far influence can be believed",
    ),
}
#: how the sentence of a regime begins, and the answer
REGIMES = {"Feature-learning": "Yes", "Between": "Partly", "Lazy": "No", "Linear": "No"}

# Drift and linearisation's error are relative, 0 for a kernel that never moves. Below a tenth the start explains 99 %
# of the squared change; above a half the part that it does not explain is of the size of the part that it does.
LAZY, LEARNING = 0.1, 0.5
# Small healthy regressions come down to 0.047 (docs/calibration.md): marked is what is all but linear.
LINEAR = 0.04
# A loss that fell by less than this share shows no training of which a regime could be told.
FELL = 0.1
# The share of the kernel that differs between examples. The ridge of the kernel regressions is 1e-3 of the kernel: less
# than that is not seen by them; ten times as much is hardly seen.
CONSTANT, NEARLY = 1e-3, 1e-2
# One answer for all is right where so many examples are of one class.
ONE_CLASS = 0.9
# A change that the first three digits of a number hardly show.
HARDLY = 0.01
# Outputs that vary by the share c of the targets explain at most 1 - (1 - c)^2 of their variance: 2 %, and 19 %.
VARY_PROBLEM, VARY_LOOK = 0.01, 0.1

NO_START = "The parameters that training started from were not given; pass initial=."
WIDE = (
    "In networks whose width tends to infinity, scaled by one over its root, the tangent kernel does not move in "
    "training, and the network is its own linearisation at the start."
)


def findings(subject, budget, key):
    if (long := _plan.too_long(subject, budget)) is not None:
        yield Finding("regime", "not applicable", long, theorem=WIDE)
        yield _constant_outputs(subject)
        yield from _moves(subject)
        return
    found = measure(subject, budget, key)
    total, n = subject.count(), len(found.train.out)
    seen = Premise(
        "the numbers are those of all training examples and outputs",
        n == total and found.chosen is None,
        f"{n:,} of {total:,} examples, {found.looked_at}",
    )
    yield _regime(subject, found, seen)
    yield _constant_outputs(subject)
    yield _constant_kernel(found, n, seen)
    yield from _moves(subject)
    yield _drift(found, seen)
    yield _turn(found, seen)
    yield _labels(found, seen)
    yield _spectrum(found, n, seen)
    yield from predictions.findings(subject, found, seen, NO_START)


def answer(findings) -> str:
    constant = first(findings, ("most frequent answer", "variation of the outputs"), "problem")
    if constant is not None:
        return because("No", constant.sentence)
    if (still := first(findings, (_unmoved.NAME,), "problem")) is not None:
        return because("No", still.sentence)
    regime = by_name(findings)["regime"]
    words = [word for start, word in REGIMES.items() if regime.sentence.startswith(start)]
    if not words:
        return because("Cannot tell", regime.sentence)
    kind, _, rest = regime.sentence.partition(": ")
    return because(f"{words[0]}, {kind[0].lower()}{kind[1:]}", rest)


def actions(subject, findings):
    if knows_start(subject):
        constant = dict.fromkeys(("most frequent answer", "variation of the outputs", "distance travelled"), _again)
        yield from advise(subject, findings, EXPLAINS, constant | {_unmoved.NAME: _whole})


def _whole(subject, finding):
    """The training there was, of all layers."""
    what = f"train all layers from the start, for {steps_of(subject)} steps"
    return retraining(subject, what, finding.name, lambda s: s)


def _again(subject, finding):
    """A training from its start, for a network that has forgotten it or never had one."""
    what = f"train it again from its start, for {steps_of(subject)} steps"
    return retraining(subject, what, finding.name, suited)


def _regime(subject, found, seen):
    name, claim = "regime", "dynamics.wide_two_layer_limits.linearisation_gap"
    if found.before is None:
        return Finding(name, "not applicable", NO_START, theorem=WIDE, claim=claim)
    if not known(found, "drift", "linearisation"):
        why = "Training did not change the outputs, or the tangent kernel at the start is zero: there is no regime."
        return Finding(name, "not applicable", why, theorem=WIDE, claim=claim)
    error, bounds = found.numbers["linearisation"]
    drift, ends = found.numbers["drift"]
    before, after = found.losses
    fell = after < before - FELL * abs(before)
    # growth alone is no feature: the sine of the angle, once what all inputs have in common is taken out
    turn = np.sqrt(max(1 - found.numbers["centred cosine"][0] ** 2, 0.0))
    text = (
        f"the tangent kernel changed by {short(drift)} times its size at the start, and the network linearised there "
    )
    text += f"misses {short(100 * error)} % of what training did to the outputs"
    if not fell:
        mark = "look"
        sentence = (
            f"The loss fell by less than {100 * FELL:.0f} % from where training is said to have started "
            f"({short(before)}, now {short(after)}): the regime cannot be determined ({text})."
        )
    elif max(ends[1], bounds[1]) < LAZY and linear(subject):
        mark = "fine"
        sentence = (
            f"Linear: {text}. The outputs are affine in the parameters that are trained: a linear model in fixed "
            "features, such as a head on a frozen body, has no others to learn."
        )
    elif max(ends[1], bounds[1]) < LAZY:
        mark = "look" if max(ends[1], bounds[1]) < LINEAR else "fine"
        sentence = (
            f"Lazy: {text}. This is all but a linear model in features that were drawn at the start and never learned. "
            "If it should learn its own, scale its outputs down and take longer steps."
        )
    elif min(ends[0], bounds[0]) > LEARNING and turn > LAZY:
        mark = "fine"
        sentence = (
            f"Feature-learning: {text}. What holds for wide networks near their start does not describe this one."
        )
    else:
        mark = "fine"
        sentence = f"Between lazy and feature-learning: {text}. The start explains only part of this network."
    falls = Premise("the loss fell in training", fell, f"from {short(before)} to {short(after)} on these examples")
    wide = Premise("as wide, and scaled, as the theorem asks", None, f"{subject.size:,} parameters")
    headline = "It learned no features of its own" if fell else "The loss hardly fell in training"
    facts = dict(theorem=WIDE, claim=claim, premises=(falls, wide, seen), headline=headline)
    return Finding(name, mark, sentence, error, bounds, whole(bounds), **facts)


def _constant_outputs(subject):
    facts = dict(
        exact=True,
        theorem="A step of gradient descent moves the outputs at one input by the tangent kernel between it and the "
        "training inputs: where the kernel does not tell inputs apart, no step makes the outputs do so.",
        claim="kernels.empirical.moves_predictions",
    )
    labels = None if subject.classes is None else np.asarray(subject.labels("train"), int)
    # several labels at once are mostly no, whatever the input: their outputs tell more
    if labels is not None and (subject.class_axis is not None or labels.ndim == 1):
        known = labels != IGNORED
        what = "examples" if labels.ndim == 1 else "places"
        given = np.bincount(np.asarray(subject.predict("train"), int)[known], minlength=subject.classes)
        true = np.bincount(labels[known], minlength=subject.classes)
        share, most = given.max() / given.sum(), true.max() / true.sum()
        if share == 1 and most < ONE_CLASS:
            mark, text = "problem", "This network is a constant: it does not look at its input."
        elif share > (1 + most) / 2 and not _surprised(subject):
            # of a rare class most examples are likelier not of it, and probabilities tell them apart all the same
            mark, text = "fine", "Its probabilities tell its inputs apart."
        elif share > (1 + most) / 2 and _from_the_start(subject, known) > (1 + most) / 2:
            mark, text = "fine", "It was so where training started, and is nothing that training did."
        elif share > (1 + most) / 2:
            mark, text = "look", "It hardly tells its inputs apart."
        else:
            mark, text = "fine", "It tells its inputs apart."
        sentence = (
            f"The most frequent answer is given to {short(100 * share)} % of the training {what}; the most frequent "
            f"class has {short(100 * most)} % of them. {text}"
        )
        headline = f"It gives {'one answer to everything' if share == 1 else 'nearly everything one answer'}"
        return Finding("most frequent answer", mark, sentence, float(share), headline=headline, **facts)
    goals = aims(subject, "train")
    out = np.asarray(subject.outputs("train"))
    out = out.reshape(len(out), -1).astype(np.result_type(out.dtype, np.float32))
    against = out if goals is None else goals
    name = "variation of the outputs"
    scale = np.sqrt((against**2).mean()) if goals is None else against.std(axis=0).max()
    if scale == 0:
        return Finding(name, "not applicable", "All targets are the same: there is nothing to tell apart.")
    spread = float(out.std(axis=0).max() / scale)
    mark = "problem" if spread < VARY_PROBLEM else "look" if spread < VARY_LOOK else "fine"
    than = "their own size" if goals is None else "the targets' standard deviation"
    end = {"problem": "This network is all but a constant.", "look": "It hardly tells its inputs apart.", "fine": ""}
    sentence = f"Over the training examples the outputs vary by {short(spread)} of {than}. {end[mark]}".strip()
    headline = "It is all but a constant" if mark == "problem" else "It hardly tells its inputs apart"
    return Finding(name, mark, sentence, spread, headline=headline, **facts)


def _surprised(subject) -> bool:
    """Whether half of a blind guess's loss is left, or how much is not known."""
    return not learned_by_loss(subject)


def _from_the_start(subject, known) -> float:
    """How often the network that training started from gives one answer, 0 where it is not known: many starts do."""
    if subject.initial_params is None:
        return 0.0
    out, _ = losses_at(subject, start_of(subject, jax.random.key(0)))
    given = np.bincount(np.asarray(subject.decide(out), int)[known])
    return float(given.max() / given.sum())


def _constant_kernel(found, n, seen):
    value, bounds = found.numbers["varies"]
    name, claim = "variation of the tangent kernel", "kernels.empirical.moves_predictions"
    theorem = "A step of gradient descent moves the outputs at one input by the tangent kernel between it and the data."
    if n < 2:
        return Finding(name, "not applicable", "There is only one training example.", theorem=theorem, claim=claim)
    if not np.isfinite(value):
        sentence = "The tangent kernel is zero: no parameter changes any output, and no training can go on from here."
        facts = dict(theorem=theorem, claim=claim, premises=(seen,), headline="No training can go on from here")
        return Finding(name, "problem", sentence, 0.0, exact=True, **facts)
    if value < CONSTANT:
        mark, text = "problem", "a step of training moves all outputs alike, and cannot come to tell inputs apart"
    elif value < NEARLY:
        mark, text = (
            "look",
            "nearly all of a step of training moves all outputs alike; inputs with a large mean do this",
        )
    else:
        mark, text = "fine", "a step of training can move the output at one input and leave that at another"
    sentence = f"{short(100 * value)} % of the tangent kernel differs between inputs: {text}."
    headline = f"Training can {'not' if mark == 'problem' else 'hardly'} tell inputs apart from here"
    facts = dict(theorem=theorem, claim=claim, premises=(seen,), headline=headline)
    return Finding(name, mark, sentence, value, bounds, whole(bounds), **facts)


def _moves(subject):
    """How far the parameters went, and whether all of them did."""
    yield _distance(subject)
    if (still := _unmoved.measure(subject)) is not None:
        yield _unmoved.judge(still)


def _distance(subject):
    name, claim = "distance travelled", "dynamics.wide_two_layer.parameters_stay"
    theorem = "In wide networks the parameters go a way that does not grow with the width, their norm does."
    if subject.initial_params is None:
        return Finding(name, "not applicable", NO_START, theorem=theorem, claim=claim)
    ends = zip(*(jax.tree.leaves(t) for t in (subject.initial_params, subject.params)), strict=True)
    squares = np.zeros(2)
    for start, end in ends:  # one array at a time: in double precision all of them would be a multiple of the network
        start, end = np.asarray(start, float), np.asarray(end, float)
        squares += np.sum((end - start) ** 2), np.sum(start**2)
    moved, size = np.sqrt(squares)
    if size == 0:
        return Finding(name, "not applicable", "All parameters started at zero.", theorem=theorem, claim=claim)
    value = float(moved / size)
    sentence = f"The parameters moved by {short(value)} times the norm they started with."
    if value == 0:
        sentence = "The parameters are those that training is said to have started from: nothing was trained."
    facts = dict(theorem=theorem, claim=claim, headline="Nothing was trained")
    return Finding(name, "fine" if value else "look", sentence, value, exact=True, **facts)


def _drift(found, seen):
    facts = dict(
        theorem="In wide networks the relative change of the tangent kernel in training falls as the width grows.",
        claim="dynamics.wide_two_layer.parameters_stay",
    )
    return _number(
        found, "drift", "drift of the tangent kernel", facts, seen,
        lambda v: f"In training the tangent kernel changed by {short(v)} times its size at the start.",
    )  # fmt: skip


def _turn(found, seen):
    facts = dict(theorem=WIDE, claim="dynamics.wide_two_layer.parameters_stay")

    def sentence(value):
        text = f"The cosine between the tangent kernels before and after is {short(value)}"
        if found.numbers["varies"][0] >= CONSTANT and known(found, "centred cosine"):
            text += f", without what all inputs have in common {short(found.numbers['centred cosine'][0])}"
        return text + ": at 1 the kernel at most grew or shrank; below, it finds other inputs alike than at the start."

    return _number(found, "cosine", "alignment of the tangent kernel with its start", facts, seen, sentence)


def _number(found, which, name, facts, seen, sentence):
    if found.before is None:
        return Finding(name, "not applicable", NO_START, **facts)
    if not known(found, which):
        return Finding(name, "not applicable", "The tangent kernel at the start or at the end is zero.", **facts)
    value, bounds = found.numbers[which]
    return Finding(name, "fine", sentence(value), value, bounds, whole(bounds), premises=(seen,), **facts)


def _labels(found, seen):
    name = "alignment with the labels"
    facts = dict(
        theorem="The part of the labels along an eigenvector of the kernel is learned at the rate of its eigenvalue: a "
        "kernel in line with the labels learns them fast.",
        claim="dynamics.wide_two_layer_limits.eigenbasis",
    )
    if found.train.aims is None:
        return Finding(name, "not applicable", predictions.no_aims(found), **facts)
    # of a kernel that does not differ between inputs nothing but rounding is left to be aligned
    if not known(found, "labels after", "varies") or found.numbers["varies"][0] < CONSTANT:
        why = "The labels of these examples are all the same, or the tangent kernel does not differ between them."
        return Finding(name, "not applicable", why, **facts)
    value, bounds = found.numbers["labels after"]
    sentence = f"The trained network's tangent kernel is aligned with the labels by {short(value)} (1 is most; "
    sentence += f"labels in a random order would give {short(found.numbers['labels by chance'][0])})"
    if found.before is not None and known(found, "labels before"):
        old, (low, high) = found.numbers["labels before"]
        gained, ends = found.numbers["labels gained"]
        sentence += f", at the start by {short(old)} [{short(low)}, {short(high)}]: "
        rose = "training turned it towards the labels" if gained > 0 else "training turned it away from the labels"
        if abs(gained) < HARDLY * old:
            rose = "training hardly turned it"
        sentence += rose if ends[0] > 0 or ends[1] < 0 else "no change that these examples could show"
    return Finding(name, "fine", sentence + ".", value, bounds, whole(bounds), premises=(seen,), **facts)


def _spectrum(found, n, seen):
    name, claim = "effective rank of the tangent kernel", "dynamics.wide_two_layer_limits.eigenbasis"
    theorem = "Along each eigenvector of the kernel the error falls at a rate that is its eigenvalue."
    kinds = {"after training": found.after, "before training": found.before}
    spectra = {
        kind: np.linalg.eigvalsh(k[:n, :n].astype(float))[::-1]
        for kind, k in kinds.items()
        if k is not None and np.any(k[:n, :n])
    }
    if "after training" not in spectra:
        return Finding(name, "not applicable", "The tangent kernel is zero.", theorem=theorem, claim=claim)
    ranks = {kind: float(kernels.effective_rank(v.astype(found.after.dtype))) for kind, v in spectra.items()}
    rank = ranks["after training"]
    sentence = f"About {short(rank)} of {n} directions carry the trained network's tangent kernel on these examples"
    sentence += f", {short(ranks['before training'])} at the start." if "before training" in ranks else "."
    rows = [
        {"number": i + 1, "eigenvalue": float(v), "kernel": kind}
        for kind, values in spectra.items()
        for i, v in enumerate(values)
        # below this an eigenvalue is rounding
        if v > n * np.finfo(found.after.dtype).eps * values[0]
    ]
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_line()
        .encode(
            x=alt.X("number:Q", title="number of the eigenvalue"),
            y=alt.Y("eigenvalue:Q", title="eigenvalue", **logarithmic(row["eigenvalue"] for row in rows)),
            color=alt.Color(
                "kernel:N",
                title=None,
                scale=alt.Scale(domain=[*spectra][::-1], range=[WRONG, MEASURED][-len(spectra) :]),
                legend=alt.Legend(orient="top"),
            ),
        )
    )
    figure = picture("eigenvalues of the tangent kernel", chart.properties(width=320, height=180))
    return Finding(
        name, "fine", sentence, rank, exact=True, theorem=theorem, claim=claim, premises=(seen,), figure=figure
    )
