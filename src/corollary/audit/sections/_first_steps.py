"""The first steps: the longest that is stable, and what a constant tangent kernel says of their number."""

import math
from typing import NamedTuple

import altair as alt
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary import kernels
from corollary.audit import _plan
from corollary.audit._linear import linear
from corollary.audit._order import curvature
from corollary.audit._sample import interval, quadratic_forms, some
from corollary.audit._tangent import chosen_outputs
from corollary.audit.finding import MARKED, Finding, Premise, short
from corollary.audit.sections import _gap
from corollary.audit.sections._axes import logarithmic
from corollary.audit.sections._blind import WORSE, blind_guess
from corollary.audit.sections._slope import rested
from corollary.evidence import picture

# Beyond 2/λ a step overshoots. Networks outlive that by jumping to a flatter place first: random recipes with a step of
# up to four times 2/λ fail no more often than with a shorter one, those beyond 32 times it in nine of ten
# (docs/calibration.md).
LOOK, PROBLEM = 4.0, 32.0
# a loss that came below this share of where it started shows a training that got somewhere
WELL = 0.5
# or has taken this share off a blind guess's
SOMEWHERE = 0.25
# more steps than most trainings have: a hundred epochs of a thousand batches
MANY = 1e5
STEPS = np.unique(np.round(np.geomspace(1, 1e6, 61)).astype(np.int32))
# so many that all directions are done which the precision of the numbers can tell from those that are never learned
END = np.int32(2_000_000_000)
TENTH = 0.1
# the prediction is an order of magnitude: so many times the steps that were taken are too many
ORDER = 10
# numbers of residuals of all steps that are kept
MOST_RESIDUALS = 2**26

CONSTANT = Premise("the kernel stays what it is", None, "exact in the limit of infinite width only")
NAMES = ("largest stable step", "condition of the tangent kernel", "steps to fit")
#: how a training is called that takes too long: by its steps, or where no number of them is enough
SLOW = (NAMES[2], "residual left after a million steps")


NO_START = "Neither initial nor init was given, so that nothing is known of where training started."


def left_out(reason: str, names):
    yield from (Finding(name, "not applicable", reason) for name in names)


class Step(NamedTuple):
    """The largest curvature where training starts, with its bounds, and whether the loss is a quadratic there.

    `went_well` says that training is known to have led down from there: its first steps did not ruin it.
    """

    sharpness: float
    bounds: tuple[float, float]
    quadratic: bool
    went_well: bool
    examples: int


def measure_step(subject, start, losses, budget, sample_key, top_key) -> Step | str:
    """The curvature at the start, or a sentence on why there is none; `losses` are those of the examples there."""
    went_well = start.kind == "given" and subject.mean_loss() < WELL * float(np.mean(losses))
    plan = _plan.curvature(subject, budget, sample_key)
    data, (count, total) = plan.data, _plan.looked_at(subject, plan.data)
    # the call of the section on minima, so that one compiled program serves both; 1 % is enough here
    try:
        operator = curvature(subject, start.params, plan)
    except ValueError as error:
        return f"The curvature could not be computed: {error}"
    ends = operator.top(2, which="both", products=plan.products, basis=plan.basis, key=top_key, tolerance=1e-2)
    sharpness, residual = float(ends.values[0]), float(ends.residuals[0])
    if not 0 < sharpness < math.inf:
        flat = "the loss curves upwards in no direction: curvature limits no step there."
        beyond = "the curvature is beyond what the precision of the numbers can hold."
        return f"{start.where} {flat if sharpness <= 0 else beyond}"
    vector = jnp.asarray(np.asarray(ends.vectors)[0])
    forms = quadratic_forms(subject.objective, start.params, data, vector, plan.batch_size)
    low, high = interval(np.asarray(forms), total)
    # Lanczos' error, and rounding in sums of some ten thousand terms
    error = residual + 1e2 * float(jnp.finfo(operator.dtype).eps) * sharpness
    bounds = max(low - error, 1e-3 * sharpness), high + error
    quadratic = subject.loss_name == "squared" and linear(subject)
    return Step(sharpness, bounds, quadratic, went_well, count)


def judge_step(subject, start, found: Step | str) -> Finding:
    """2 over the sharpness at the start, against the step of the training."""
    if isinstance(found, str):
        return Finding(NAMES[0], "not applicable", found)
    step, (low, high), total = 2 / found.sharpness, found.bounds, subject.count()
    full = subject.batch_size is None or subject.batch_size >= total
    mark, text = _of_step(subject.learning_rate, found, full)
    return Finding(
        NAMES[0],
        mark,
        f"{start.where} the largest curvature is {short(found.sharpness)}: plain gradient descent is stable up to a "
        f"step of {short(step)}. {text}",
        step,
        (2 / high, 2 / low),
        theorem="On a quadratic, gradient descent multiplies every axis by 1 − ηλ: it diverges along directions of "
        "curvature above 2/η.",
        claim="optimization.quadratics.dynamics",
        premises=(
            start.premise,
            Premise("all training examples were used", found.examples == total, f"{found.examples:,} of {total:,}"),
            Premise(
                "the loss is near its quadratic model",
                True if found.quadratic else None,
                "a linear model under the squared loss" if found.quadratic else "holds for the first steps only",
            ),
            Premise(
                "full-batch gradient descent without momentum",
                full if subject.batch_size else None,
                f"batch of {subject.batch_size or 'unknown size'}",
            ),
        ),
        headline="The first steps overshoot" if mark == "look" else "The step is too long",
    )


def _of_step(eta, found: Step, full: bool):
    if eta is None:
        return "fine", "The step used in training was not given: learning_rate=."
    ratio = eta * found.sharpness / 2
    given = f"The step given, {short(eta)}, is {short(ratio)} {'of' if ratio < 1 else 'times'} that: "
    if ratio > 1 and found.quadratic and full:
        return "problem", given + "the loss is a quadratic, so that it grows with every step without end."
    if ratio > 1 and found.went_well:
        return "fine", given + "the first steps overshoot, and training got over it."
    if ratio > PROBLEM:
        return "problem", given + "the first steps overshoot and the loss rises, perhaps for good."
    if ratio > LOOK:
        return "look", given + "the first steps overshoot; training goes on only if it finds a flatter place at once."
    if ratio > 1:
        return "fine", given + "the first steps overshoot by little, and networks get over that."
    return "fine", given + "the first steps go down."


@eqx.filter_jit
def _slopes(loss, out, y):
    return jax.grad(loss.of_outputs)(out, y)


def kernel(subject, start, outputs, losses, budget, key, sure: bool = False):
    """Condition of the tangent kernel on some examples, and the number of steps that it predicts.

    Where the first steps are `sure` of the rest, no number that a kernel would need if it stayed is held against them.
    """
    total, (examples, at) = subject.count(), _plan.kernel(subject, budget, key)
    examples = min(examples, budget.kernel)
    rows = some((np.arange(outputs.shape[0]),), examples, key)[0]
    n, out = len(rows), outputs[rows]
    row = max(1, out[0].size)
    width = row if at is None else len(at)
    x, y = jax.tree.map(lambda a: a[rows], subject.train)
    # what a single output sees on average
    try:
        network, trainable = chosen_outputs(subject.at(start.params), at, subject.trainable)
        theta = kernels.empirical_ntk(network, x, trainable=trainable) / width
        reason = "The tangent kernel is beyond what the precision of the numbers can hold."
    except ValueError as error:
        theta, reason = None, f"The tangent kernel could not be computed: {error}"
    if theta is None or not np.isfinite(theta).all():
        yield from left_out(reason, NAMES[1:])
        return
    values = np.linalg.eigvalsh(np.asarray(theta, float))
    top, rounding = float(values[-1]), n * float(jnp.finfo(theta.dtype).eps) * float(values[-1])
    seen = Premise("all training examples were used", n == total, f"{n:,} of {total:,}")
    shared = Premise(
        "all outputs share one kernel and do not mix",
        True if row == 1 else None,
        f"mean over {width} {f'of {row} ' if width < row else ''}outputs",
    )
    if not top > 0:
        yield Finding(
            NAMES[1],
            "problem",
            f"{start.where} no parameter changes any output: nothing can be learned from there.",
            0.0,
            exact=True,
            theorem="A step of gradient descent moves every prediction by the tangent kernel.",
            claim="kernels.empirical.moves_predictions",
            premises=(start.premise, seen),
            headline="Nothing can be learned from this start",
        )
        return
    yield _condition(start, values, rounding, seen, shared)
    residual = (-n * _slopes(subject.loss, out, y)).reshape(n, row)
    if at is not None:
        residual = residual[:, at]
    # some of the residuals, if those of all steps are too many
    residual = residual[:, : max(1, MOST_RESIDUALS // (n * len(STEPS)))]
    fell = sure or led_away(subject, start, losses)
    found = _steps(subject, start, theta, residual, top, fell, seen, shared)
    # what is slow and left may be noise, which no training should learn
    if found.mark in MARKED and start.kind == "given" and rested(subject, budget, key):
        found = _steps(subject, start, theta, residual, top, True, seen, shared)
    yield found


def led_away(subject, start, losses) -> bool:
    """Whether training is known to have left its start: no number of steps that it would need is held against it.

    `losses` are those of the examples at the start.
    """
    if start.kind != "given":
        return False
    loss, blind, before = subject.mean_loss(), blind_guess(subject), float(np.mean(losses))
    # healthy regressions on noisy targets come down by less than half, and yet far below a blind guess
    fell = loss < WELL * before or (blind is not None and loss < (1 - SOMEWHERE) * blind)
    # what is worse than the start, and than a blind guess, did not lack steps
    rose = blind is not None and loss > WORSE * max(blind, before)
    # what is right about most examples has learned them, however unsure of them it was made
    return fell or rose or _gap.learned_by_errors(subject)


def _condition(start, values, rounding, seen, shared) -> Finding:
    n, top, least = len(values), float(values[-1]), float(values[0])
    resolved = least > rounding
    condition = top / max(least, rounding)
    text = (
        f"If it stays so, the slowest direction needs {short(condition)} times as many steps as the fastest, "
        "and with more examples no fewer."
        if resolved
        else "Some directions are slower than the precision of the numbers can tell: labels that lie there are not "
        "learned in any reasonable time."
    )
    rows = [{"rank": i + 1, "eigenvalue": float(max(v, rounding))} for i, v in enumerate(values[::-1])]
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_line()
        .encode(
            x=alt.X("rank:Q", title="number of the eigenvalue", **logarithmic([1, n])),
            y=alt.Y("eigenvalue:Q", title="eigenvalue", **logarithmic(row["eigenvalue"] for row in rows)),
        )
        .properties(width=320, height=180)
    )
    return Finding(
        NAMES[1],
        # bad condition alone is the rule: what matters is where the labels lie, which the number of steps tells
        "fine",
        f"{start.where} the largest and the smallest eigenvalue of the tangent kernel on {n} examples are "
        f"{'' if resolved else 'at least '}a factor of {short(condition)} apart. {text}",
        condition,
        exact=True,
        theorem="With a constant kernel each eigenvector of it is learned at the rate of its eigenvalue. The extreme "
        "eigenvalues of a part of the examples lie between those of all.",
        claim="dynamics.wide_two_layer_limits.eigenbasis",
        premises=(start.premise, seen, shared, CONSTANT),
        figure=picture("spectrum of the tangent kernel at the start", chart),
    )


def _steps(subject, start, theta, residual, top, fell, seen, shared) -> Finding:
    """Steps until the part of the residual that the kernel can take away has fallen tenfold, between two of `STEPS`.

    The rest is there whatever the number of steps: noise that a model with few parameters cannot fit.
    """
    n, eta = theta.shape[0], subject.learning_rate
    squared = subject.loss_name == "squared"
    given = eta is not None and eta * top / n < 2
    step = eta if given else n / top
    moved = kernels.descent_predictions(theta, residual, step, np.append(STEPS, END), reduction="mean").train
    size = float(jnp.linalg.norm(moved[-1]))
    facts = dict(
        theorem="With a constant kernel K, gradient descent on the squared loss leaves (I − ηK/n)ᵗ of the residual "
        "after t steps.",
        claim="kernels.dynamics.closed_form",
        premises=(
            start.premise,
            seen,
            shared,
            CONSTANT,
            Premise("squared loss", squared, subject.loss_name),
            Premise("full-batch gradient descent", _full(subject), f"batch of {subject.batch_size or 'unknown size'}"),
        ),
    )
    if not size > 0:
        return Finding(
            NAMES[2], "not applicable", f"{start.where} there is no residual that the kernel could take away."
        )
    left = np.asarray(jnp.linalg.norm((moved[-1] - moved[:-1]).reshape(len(STEPS), -1), axis=1), float) / size
    never = float(jnp.linalg.norm(residual - moved[-1]) / jnp.linalg.norm(residual))
    rows = [{"step": int(t), "left": float(v)} for t, v in zip(STEPS, left, strict=True)]
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_line()
        .encode(
            x=alt.X("step:Q", title="step", **logarithmic(map(float, STEPS))),
            y=alt.Y("left:Q", title="share of the residual left", scale=alt.Scale(domain=[0, 1])),
        )
        .properties(width=320, height=180)
    )
    facts["figure"] = picture("residual that a constant kernel leaves", chart)
    at = f"at the step {short(step)}" + ("" if given else " that suits the fastest direction")
    if left[-1] > TENTH:
        return Finding(
            SLOW[1],
            _slow(subject, start, math.inf, fell),
            f"Were the tangent kernel to stay as it is {start.where.lower()}, {short(100 * left[-1])} % of the "
            f"residual that it can take away would be left after a million steps {at} on {n} examples: either the "
            "kernel changes on the way, or these labels are not learned.",
            float(left[-1]),
            exact=True,
            headline="A million steps would not be enough",
            **facts,
        )
    i = int(np.argmax(left <= TENTH))
    low, high = float(STEPS[i - 1] if i else 0), float(STEPS[i])
    value = math.sqrt(low * high) if low > 0 else high
    mark = _slow(subject, start, low, fell)
    more = "" if squared else " For another loss than the squared one this is an order of magnitude at best."
    if never > TENTH:
        more = f" (It cannot take away {short(100 * never)} % of the residual, whatever the number of steps.)" + more
    headline = f"The steps were too few{', or too short' if given else ''}"
    if subject.steps is None:
        headline = "Training takes very many steps"
    return Finding(
        NAMES[2],
        mark,
        f"Were the tangent kernel to stay as it is {start.where.lower()}, gradient descent {at} would bring the "
        f"residual of {n} examples down to a tenth in about {short(round(value))} steps{_taken(subject, mark)}.{more}",
        value,
        (low, high),
        unit="steps",
        headline=headline,
        **facts,
    )


def _full(subject):
    return None if subject.batch_size is None else subject.batch_size >= subject.count()


def _slow(subject, start, steps: float, fell: bool) -> str:
    """The mark of so many predicted steps: too many for anyone, or for the training that there was."""
    if subject.steps is None or subject.learning_rate is None:
        return "fine" if steps <= MANY else "look"
    if steps <= ORDER * subject.steps or fell:
        # the kernel moved on the way, and the loss came down all the same
        return "fine" if steps <= MANY or fell else "look"
    return "problem" if start.kind == "given" else "look"


def _taken(subject, mark: str) -> str:
    if subject.steps is None:
        return ""
    return f"; training took {subject.steps:,}" + ("" if mark == "fine" else ", far too few")
