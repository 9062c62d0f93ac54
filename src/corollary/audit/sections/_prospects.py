"""Will this step and this start get there in the steps given? Told from the first twenty of them, taken again."""

import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from corollary.audit import _plan
from corollary.audit._sample import exact_interval, some
from corollary.audit.finding import Finding, Premise, short
from corollary.audit.sections._blind import blind_guess
from corollary.audit.sections._early import PROBE, PRODUCTS, STEPS, Early, curvature, features
from corollary.audit.sections._first_steps import SOMEWHERE

NAME = "chance to halve the loss of a blind guess"
# At the first as large a share of the recipes that get there is missed as of those that fail, cross-validated (a third
# of all gets there: at even odds more of these is missed); below the second one in ten or fewer gets there.
LOOK, PROBLEM = 0.35, 0.1
# Of recipes of which this is said one in a thousand fails (docs/calibration.md): a network that is not there was not
# trained in the way that was said.
SURELY = 0.98
# From even odds on it is said to train.
EVEN = 0.5
# the goal: this share of the loss of a blind guess, the one that recipes were measured by
GOAL = 0.5
MODEL = Path(__file__).parents[1] / "prospects.json"
MISSING = "{} not given: pass {}, and this says whether such a training gets anywhere."


class Prospects(NamedTuple):
    """The probability, the recipes of such a probability that got there and how many there were, the goal, the facts.

    `somewhere` says that the trained network is known to have got somewhere; `loss` is the one that it has,
    None where nothing was trained.
    """

    probability: float
    came_true: int
    alike: int
    goal: float
    steps: int
    somewhere: bool
    batch: int
    loss: float | None


def measure(subject, start, budget, key) -> Prospects | str:
    """The prediction; a sentence where there is none."""
    missing = {"learning_rate=": subject.learning_rate, "steps=": subject.steps}
    absent = [name for name, value in missing.items() if value is None]
    if absent:
        were = "The step and the number of steps were" if len(absent) > 1 else f"{absent[0].rstrip('=')} was"
        return MISSING.format(were, " and ".join(absent))
    if subject.optimiser is not None:
        return "An optimiser was given, and what is known of recipes is known of plain gradient descent."
    if subject.steps <= STEPS:
        return f"The training has no more than the {STEPS} steps from which it would be told."
    if (blind := blind_guess(subject)) is None:
        return "What a blind guess would have is not known for this loss."
    found = _first_steps(subject, start, budget, blind, key)
    row = features(found, subject.learning_rate, GOAL * blind, subject.steps)
    p = float(probability(row[None])[0])
    came_true, alike = _alike(p)
    somewhere = subject.mean_loss() < (1 - SOMEWHERE) * blind
    loss = subject.mean_loss() if _moved(subject) else None
    return Prospects(p, came_true, alike, GOAL * blind, subject.steps, somewhere, _batch(subject), loss)


def _moved(subject) -> bool:
    """Whether anything is known to have been trained."""
    if subject.initial_params is None:
        return False
    ends = (jax.tree.leaves(tree) for tree in (subject.params, subject.initial_params))
    return any(not np.array_equal(a, b) for a, b in zip(*ends, strict=True))


def _batch(subject) -> int:
    n = jax.tree.leaves(subject.train)[0].shape[0]
    return n if subject.batch_size is None else min(subject.batch_size, n)


def _first_steps(subject, start, budget, blind: float, key) -> Early:
    """Numbers of the first steps, taken from the start with the step, batch and decay of the training."""
    probe_key, batch_key, top_key = jax.random.split(key, 3)
    passes = 2 * PRODUCTS * _plan.PRODUCT + 3 * _plan.GRADIENT
    probe = some(subject.train, _plan.examples_for(subject, budget, passes, most=PROBE), probe_key)
    step, decay = (jnp.asarray(a or 0.0, subject.dtype) for a in (subject.learning_rate, subject.weight_decay))
    numbers, out = _walked(
        subject.objective, start.params, subject.train, probe, batch_key, top_key, step, decay, _batch(subject)
    )
    numbers = [float(a) for a in numbers]
    if subject.classes is None or subject.class_axis is None or np.ndim(probe[1]) != 1:
        error = numbers[2] / blind
    else:
        shares = np.bincount(np.asarray(subject.labels("train")).ravel())
        wrong = np.mean(np.argmax(np.asarray(out), subject.class_axis) != np.asarray(probe[1]))
        error = wrong / max(1 - shares.max() / shares.sum(), 1e-3)
    return Early(*numbers, error)


@eqx.filter_jit
def _walked(objective, params, train, probe, batch_key, top_key, step, decay, batch):
    """All numbers of `Early` but the error, and the outputs for the probe."""
    n = jax.tree.leaves(train)[0].shape[0]

    def down(params, key):
        rows = jnp.arange(n) if batch == n else jax.random.randint(key, (batch,), 0, n)
        value, slope = jax.value_and_grad(objective)(params, jax.tree.map(lambda a: a[rows], train))
        moved = jax.tree.map(lambda p, g: p - step.astype(p.dtype) * (g + decay.astype(p.dtype) * p), params, slope)
        return moved, (value, _square(slope))

    def look(params):
        value, slope = jax.value_and_grad(objective)(params, probe)
        return value, _square(slope), curvature(lambda p: objective(p, probe), params, top_key)

    keys = jax.random.split(batch_key, STEPS)
    half, _ = jax.lax.scan(down, params, keys[: STEPS // 2])
    end, (values, slopes) = jax.lax.scan(down, half, keys[STEPS // 2 :])
    # one program for both ends: the curvature is most of it
    ends = jax.tree.map(lambda a, b: jnp.stack([a, b]), params, end)
    values_at, slopes_at, tops_at = jax.lax.map(look, ends)
    moved = jnp.sqrt(_square(jax.tree.map(jnp.subtract, end, params)) / jnp.maximum(_square(params), 1e-30))
    probed = objective(half, probe)
    numbers = values_at[0], probed, values_at[1], *slopes_at, *tops_at, moved, values.mean(), values.std()
    return (*numbers, slopes.mean()), objective.apply(end, probe[0])


def _square(tree):
    return jnp.sum(ravel_pytree(tree)[0] ** 2)


class Trees(NamedTuple):
    """Regression trees side by side: at each node a feature and a threshold, where to go, and the value of a leaf."""

    start: float
    depth: int
    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    value: np.ndarray


@cache
def _model() -> tuple[Trees, dict]:
    """The trees that benchmarks/recipes.py fitted to random recipes, and how often they were right about others."""
    kept = json.loads(MODEL.read_text(encoding="utf-8"))
    most = max(len(tree["feature"]) for tree in kept["trees"])

    def padded(name):
        return np.array([tree[name] + [0] * (most - len(tree[name])) for tree in kept["trees"]])

    columns = (padded(name) for name in ("feature", "threshold", "left", "right", "value"))
    return Trees(kept["start"], kept["depth"], *columns), kept


def probability(rows: np.ndarray) -> np.ndarray:
    """The probability that each row of features gets to the goal."""
    trees, _ = _model()
    number = np.arange(len(trees.feature))
    at = np.zeros((len(rows), len(number)), int)
    for _ in range(trees.depth):
        seen = np.take_along_axis(rows, trees.feature[number, at], 1)
        # in single precision, as they were fitted
        below = seen.astype(np.float32) <= trees.threshold[number, at]
        at = np.where(below, trees.left[number, at], trees.right[number, at])
    return 1 / (1 + np.exp(-(trees.start + trees.value[number, at].sum(1))))


def _alike(p: float) -> tuple[int, int]:
    """Of unseen recipes with about this probability those that got there, and how many there were."""
    kept = _model()[1]
    i = int(np.clip(np.searchsorted(kept["bins"], p, side="right") - 1, 0, len(kept["came_true"]) - 1))
    return tuple(kept["came_true"][i])


def surely(found: Prospects | str) -> bool:
    """Whether such a training gets there as good as always."""
    return not isinstance(found, str) and found.probability >= SURELY


def elsewhere(found: Prospects | str, start) -> bool:
    """Whether the network is not where its training is sure to lead to from its start."""
    away = surely(found) and start.kind == "given" and not found.somewhere
    return away and found.loss is not None and found.loss > found.goal


def judge(found: Prospects | str, start) -> Finding:
    facts = dict(
        theorem="On a quadratic every step multiplies each direction by 1 − ηλ: those of curvature above 2/η grow, and "
        "those far below 1/(η times the steps) hardly move.",
        claim="optimization.quadratics.dynamics",
    )
    if isinstance(found, str):
        return Finding(NAME, "not applicable", found, **facts)
    low, high = exact_interval(found.came_true, found.alike)
    p = found.probability
    text = (
        f"{start.where}, the first {STEPS} steps say that {found.steps} bring the loss below {short(found.goal)}, half "
        f"of a blind guess's, with a probability of {short(100 * p)} %: of {found.alike} random recipes of which about "
        f"the same was said, {found.came_true} got there ({short(100 * found.came_true / found.alike)} %). "
    )
    mark, headline = "fine", ""
    if elsewhere(found, start):
        mark, headline = "problem", "Such a training should have ended elsewhere"
        text += (
            f"Yet its loss is {short(found.loss)}: this is not the end of the training that was described. Were all "
            "layers given to the optimiser, did the step fade away too early, are these the weights it ended with?"
        )
    elif p >= LOOK:
        text += "It will train." if p >= EVEN else "It may train or not."
    elif found.somewhere:
        text += "Yet training has got somewhere."
    else:
        mark = "problem" if p < PROBLEM else "look"
        headline = "It will hardly train" if mark == "problem" else "It will probably not train"
        text += f"{headline}."
    premises = (
        start.premise,
        Premise(
            "plain gradient descent, as these recipes were trained", True, f"batches of {found.batch}, theirs of 32"
        ),
    )
    given = dict(premises=premises, headline=headline)
    return Finding(NAME, mark, text, p, (min(low, p), max(high, p)), **given, **facts)
