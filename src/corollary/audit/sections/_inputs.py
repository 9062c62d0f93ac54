"""The scale of the inputs, and of the outputs before anything was learned."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from corollary.audit._names import spelled
from corollary.audit._sample import interval, numbers_of
from corollary.audit.finding import Finding, Premise, short
from corollary.audit.sections._blind import LEARNED
from corollary.network.losses import IGNORED

# Initialisations presume inputs of mean square 1: sharpness grows with the mean square, and the first layer's signal is
# proportional to it. Up to a factor of 30, about 5 in size, is what pixels in [0, 1] and mild imbalance come to; a
# thousand changes the stable step by a thousand. Inputs may be smaller than larger, as sparse ones are.
LOOK, PROBLEM, TINY = 30.0, 1e3, 1e-4
# the share of curvature of a column goes with the square of its size: a hundred is a condition number of 1e4 at least
COLUMN_LOOK, COLUMN_PROBLEM = 100.0, 1000.0
# The curvature that an example adds goes with the square of its size, and the step that it bears the other way: an
# example ten times as large as the median one counts as a hundred, thirty times as a thousand.
ROW_LOOK, ROW_PROBLEM = 10.0, 30.0
# examples named, and the fewest times that a value must be there to be a code for another one
SHOWN, REPEATED = 5, 3
# examples at which it is measured how far outputs move with each column
FELT = 256
# a class of probability above this leaves the softmax flat: its slope p(1 - p) is below 0.01
SURE = 0.99
# a softmax is saturated where it is so sure of more than this share of the examples; twice the loss of a guess is what
# logits of mean square 2 log C, far beyond a usual start, cost
SATURATED, WORSE = 0.5, 2.0

LARGEST = "largest example against the others"
SCORING = dict(
    theorem="Features of mean 0 and variance 1 make the level curves of the loss rounder: gradient descent needs fewer "
    "steps the less the sizes of the inputs differ.",
    claim="linear.scoring.conditioning",
)


class Scale(NamedTuple):
    """The mean square of the inputs and of each example, and the largest column against the median one."""

    size: float
    each: np.ndarray
    widest: float
    column: int


def measure_scale(data) -> Scale | None:
    """The sizes of the inputs; None for whole numbers, such as words."""
    x = numbers_of(data[0], 2**25)
    if x is None:
        return None
    each = np.mean(x**2, axis=1)
    # columns have a meaning of their own in tables, not in images and sequences
    table = all(a.ndim <= 2 for a in jax.tree.leaves(data[0]))
    columns = np.sqrt(np.mean(x**2, axis=0)) if table else np.ones(1)
    kept = columns[columns > 0]
    widest = float(kept.max() / np.median(kept)) if kept.size else 1.0
    return Scale(float(each.mean()), each, widest, int(columns.argmax()))


def measure_felt(network, x) -> float | None:
    """How far the outputs move with the spread of a column, the largest against the median one; None but for tables.

    A network that scales its columns itself feels them alike, whatever their units.
    """
    leaves = jax.tree.leaves(x)
    if len(leaves) > 1 or leaves[0].ndim != 2 or not jnp.issubdtype(leaves[0].dtype, np.floating):
        return None
    few = jax.tree.map(lambda a: a[:FELT], x)
    out = jax.eval_shape(network, jax.tree.map(lambda a: a[0], few))
    along = jax.random.normal(jax.random.key(0), out.shape, out.dtype)
    slopes = jax.jit(jax.vmap(jax.grad(lambda a: jnp.vdot(along, network(a)))))(few)
    size = np.sqrt(np.mean(np.asarray(jax.tree.leaves(slopes)[0], float) ** 2, axis=0))
    felt = size * np.asarray(leaves[0], float).std(axis=0)
    felt = felt[felt > 0]
    return float(felt.max() / np.median(felt)) if felt.size else None


def judge_scale(
    found: Scale | None, first: float | None, start, total: int, felt: float | None = None, names=None
) -> Finding:
    """The scale of the inputs; `first` is the signal of the first layer, None if not known, `felt` that of columns.

    Columns may have `names`.
    """
    name = "scale of the inputs"
    if found is None:
        return Finding(name, "not applicable", "The inputs are whole numbers, such as words: they have no scale.")
    size, widest = found.size, found.widest
    mark, headline, text = _verdict(size, widest, spelled(names, found.column))
    # a network that scales its inputs itself is not hurt by their size; nothing makes up for inputs that are not there
    scaled = size > 0 and first is not None and 1 / LOOK <= first <= LOOK
    if mark != "fine" and scaled:
        mark, text = "fine" if widest < COLUMN_LOOK else "look", f"{text} The first layer's own scale is unharmed."
    # what the first layer gives would be of another size, were they brought to one
    itself = felt is not None and felt < COLUMN_LOOK and (scaled or first is None)
    if widest >= COLUMN_LOOK and itself:
        mark = "fine"
        text = (
            f"Columns differ in size by up to {short(widest)} times, and the network brings them to one scale itself."
        )
    if mark == "problem" and start.kind == "trained" and size > 0:
        mark = "look"  # training may have made up for it
    partly = len(found.each) < total
    return Finding(
        name,
        mark,
        f"The mean square of the inputs is {short(size)}. {text}",
        size,
        interval(found.each, total) if partly else None,
        exact=not partly,
        premises=(
            Premise("inputs of mean square near 1", 1 / LOOK <= size <= LOOK, short(size)),
            Premise("columns of about the same size", widest < COLUMN_LOOK, f"largest over median {short(widest)}"),
        ),
        headline=headline,
        **SCORING,
    )


def _verdict(size, widest, column):
    if size == 0:
        return "problem", "All inputs are zero", "All inputs are zero: the network sees nothing."
    if widest >= COLUMN_LOOK:
        mark = "problem" if widest >= COLUMN_PROBLEM else "look"
        text = f"Column {column} is {short(widest)} times as large as the median one and drowns the others: "
        return mark, "One column drowns the others", text + "bring the columns to one scale."
    if size > LOOK:
        mark = "problem" if size > PROBLEM else "look"
        text = "That is large: usual initialisations presume about 1, and the stable step shrinks with it."
        return mark, "The inputs are too large", text
    if size < 1 / LOOK:
        mark = "problem" if size < TINY else "look"
        text = "That is small: usual initialisations presume about 1, and the first layer's gradient shrinks."
        return mark, "The inputs are too small", text
    return "fine", "", "That is near enough to 1, which usual initialisations presume."


class Sizes(NamedTuple):
    """The mean squares of training examples, their numbers, and a value that stands for missing ones with how often."""

    each: np.ndarray
    rows: np.ndarray
    code: tuple[float, int] | None


def measure_sizes(subject) -> Sizes | None:
    """The sizes of the training examples; None for whole numbers, such as words."""
    x = numbers_of(subject.train[0], 2**25)
    if x is None:
        return None
    n = len(jax.tree.leaves(subject.train[0])[0])
    each = np.mean(x**2, axis=1)
    return Sizes(each, np.arange(0, n, -(-n // len(x))), code_of(x, each) if len(large_rows(each)) else None)


def code_of(x: np.ndarray, each: np.ndarray) -> tuple[float, int] | None:
    """The one value that most of the numbers have which make examples so large, and how often it is there.

    Measurements that are far out differ; -999 for what is missing does not.
    """
    far = x[np.abs(x) > ROW_LOOK * np.sqrt(np.median(each[each > 0]))] if (each > 0).any() else x[:0]
    values, times = np.unique(far, return_counts=True)
    if not len(far) or times.max() < max(REPEATED, len(far) / 2):
        return None
    return float(values[times.argmax()]), int(times.max())


def large_rows(each: np.ndarray) -> np.ndarray:
    """The examples that are far larger than the median one, the largest first; `each` are their mean squares."""
    usual = np.median(each[each > 0]) if (each > 0).any() else 0.0
    rows = np.flatnonzero(each > ROW_LOOK**2 * usual) if usual else np.array([], int)
    return rows[np.argsort(-each[rows], kind="stable")]


def judge_largest(found: Sizes) -> Finding:
    """The largest example against the median one."""
    each, rows, code = found
    usual = np.median(each[each > 0]) if (each > 0).any() else 0.0
    most = float(np.sqrt(each.max() / usual)) if usual else 1.0
    large = large_rows(each)
    if len(large):
        some = ", ".join(str(rows[i]) for i in large[:SHOWN])
        more = f" and {len(large) - SHOWN} more" if len(large) > SHOWN else ""
        share = 100 * each[large].sum() / each.sum()
        text = (
            f"The training examples {some}{more} are up to {short(most)} times as large as the median one, and have "
            f"{short(share)} % of the mean square of all inputs: a step that is short enough for them is too short for "
            "the others. "
        )
        text += (
            "Are they broken?"
            if code is None
            else f"{short(code[0])} is in them {code[1]} times: does it stand for missing values?"
        )
    else:
        text = f"The largest training example is {short(most)} times as large as the median one: none drowns the rest."
    mark = "problem" if most > ROW_PROBLEM and len(large) else "look" if len(large) else "fine"
    even = Premise("examples of about one size", not len(large), f"largest over median {short(most)}")
    headline = "Some examples are far larger than the rest"
    if code is not None:
        headline = f"{short(code[0])} seems to stand for missing values"
    given = dict(unit="times the median one", premises=(even,), headline=headline)
    return Finding(LARGEST, mark, text, most, exact=True, **given, **SCORING)


def broken_start(losses, start) -> Finding | None:
    """The finding that the loss is not a finite number where training starts, None if it is."""
    share = float(np.mean(~np.isfinite(losses)))
    if share == 0:
        return None
    return Finding(
        "examples without a finite loss",
        "problem",
        f"{start.where} the loss is infinite or not a number for {short(100 * share)} % of the training examples: the "
        "signal explodes on its way, and no step can be taken from there.",
        100 * share,
        exact=True,
        unit="% of examples",
        theorem="Through linear layers the mean square of the signal is multiplied by width times variance of the "
        "weights, layer by layer.",
        claim="landscape.propagation.linear_layers",
        premises=(start.premise,),
        headline="The loss is not a finite number",
    )


class Confidence(NamedTuple):
    """The share of places where some class has nearly all probability, the mean loss, that of a blind guess.

    `learned` says that the trained network has got far below that guess.
    """

    share: float
    loss: float
    guess: float
    what: str
    learned: bool


def measure_confidence(subject, outputs, losses) -> Confidence:
    out, axis = jnp.asarray(outputs, jnp.float32), subject.class_axis
    # the largest probability, at every place that has a class
    top = jax.nn.sigmoid(jnp.abs(out.reshape(-1))) if axis is None else jax.nn.softmax(out, axis).max(axis)
    sure = np.asarray(top)[np.asarray(subject.labels("train")) != IGNORED] > SURE
    what = "examples" if sure.ndim == 1 and sure.size == len(losses) else "places"
    guess = float(np.log(subject.classes))
    return Confidence(float(sure.mean()), float(np.mean(losses)), guess, what, subject.mean_loss() < LEARNED * guess)


def judge_confidence(found: Confidence, start) -> Finding:
    """How sure the network is before it has learned, and whether with reason."""
    share, loss, guess, what, learned = found
    early = start.kind != "trained"
    # worse than not to look at the input at all, and sure of it: the outputs have to come down before anything is
    # learned
    if share > SATURATED and loss > guess:
        mark = "look" if learned and early else "problem"
        text = "The softmax is saturated and wrong: the outputs are too large, and it must unlearn first."
        text += " Training has got over it." if learned and early else ""
    elif early and learned and loss > WORSE * guess:
        mark, text = "fine", "The outputs are larger than a start should have them, and training has got over it."
    elif early and (share > SATURATED or loss > WORSE * guess):
        mark, text = "look", "That is more than a start should be sure of: the outputs are larger than they should be."
    else:
        mark, text = (
            "fine",
            "The softmax is not saturated." if share <= SATURATED else "That is what training has led to.",
        )
    return Finding(
        "confidence of the softmax",
        mark,
        f"{start.where} the network gives some class more than 99 % on {short(100 * share)} % of the {what}, at a "
        f"loss of {short(loss)} (a blind guess has {short(guess)}). {text}",
        100 * share,
        exact=True,
        unit=f"% of {what}",
        theorem="The slope of the logistic function, p(1 − p), vanishes exponentially in its input: where a "
        "probability is near 0 or 1, outputs have to move far before it changes.",
        claim="nets.activations_vanishing.saturation",
        premises=(start.premise,),
        headline="The outputs are too large at the start" if early else "It is very sure of wrong answers",
    )
