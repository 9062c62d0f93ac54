"""Is it as sure as it may be? The calibration error on test data, and the temperature that mends it."""

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary.audit._sample import interval
from corollary.audit.action import Action, Effect
from corollary.audit.finding import Finding, Premise, short
from corollary.generalization import best_temperature, calibration_error
from corollary.network import Network

NAME = "calibration error"
# The error beyond what chance makes. One in twenty is what networks trained to the end often have; three in twenty
# turn a probability of 0.95 into 0.8.
LOOK, PROBLEM = 0.05, 0.15
# Where few answers are wrong the error is small however sure the network is; outputs so many times too large are seen
# by the temperature that mends them.
HOT = 4.0
# fewer test examples have no shares worth the name; draws for the interval
FEWEST, DRAWS = 50, 200


class Calibration(NamedTuple):
    """The error with its interval, what chance makes of it, the mean confidence, the share right, the temperature.

    The temperature is fitted to a half of the test data, and its `mended` error, and the losses there, are those of the
    other half.
    """

    error: float
    interval: tuple[float, float]
    chance: float
    confidence: float
    right: float
    temperature: float
    mended: float
    losses: np.ndarray


def logits_of(subject):
    """The logits of test examples that have one class each, and these classes; None for other outputs."""
    if subject.test is None or subject.loss_name != "cross_entropy" or subject.labels("test").ndim > 1:
        return None
    out = subject.outputs("test")
    if subject.class_axis is None:  # one logit: that of the second class against 0
        out = jnp.stack([jnp.zeros(len(out), out.dtype), out.reshape(-1)], 1)
    return (out, subject.labels("test")) if len(out) >= FEWEST else None


def measure(subject) -> Calibration | None:
    given = logits_of(subject)
    if given is None:
        return None
    rng = np.random.default_rng(0)
    n = len(given[0])
    rows, uniform = rng.integers(0, n, (DRAWS, n)), rng.random((DRAWS, n))
    order = rng.permutation(n)
    found = jax.tree.map(np.asarray, _measured(*given, rows, uniform, order[: n // 2], order[n // 2 :]))
    error, again, by_chance, sure, right, temperature, mended, losses = found
    # resampling adds what chance makes once more, and so it is taken off
    low, high = np.quantile(again, (0.025, 0.975)) - (again.mean() - error)
    numbers = float(error), (float(max(low, 0)), float(high)), float(by_chance.mean()), float(sure), float(right)
    return Calibration(*numbers, float(temperature), float(mended), losses.astype(float))


@jax.jit
def _measured(logits, y, rows, uniform, half, other):
    def error(r):
        return calibration_error(logits[r], y[r])

    p = jax.nn.softmax(logits)

    def drawn(u):
        """The error if labels were drawn from the probabilities."""
        return calibration_error(logits, jnp.minimum((jnp.cumsum(p, 1) < u[:, None]).sum(1), p.shape[1] - 1))

    temperature = best_temperature(logits[half], y[half])
    cooled = logits[other] / temperature
    losses = -jnp.take_along_axis(jax.nn.log_softmax(cooled), y[other][:, None], 1)[:, 0]
    sure, right = p.max(1).mean(), (jnp.argmax(logits, 1) == y).mean()
    mended = calibration_error(cooled, y[other])
    again, chance = jax.lax.map(error, rows), jax.lax.map(drawn, uniform)
    return calibration_error(logits, y), again, chance, sure, right, temperature, mended, losses


def finding(subject) -> Finding | None:
    found = measure(subject)
    return None if found is None else judge(found)


def judge(found: Calibration) -> Finding:
    beyond = found.interval[0] - found.chance
    hot = beyond > 0 and found.temperature > HOT
    mark = "problem" if beyond > PROBLEM else "look" if beyond > LOOK or hot else "fine"
    said = (
        f"It is {short(100 * found.confidence)} % sure of its answers on average, and right in "
        f"{short(100 * found.right)} %: its probabilities are off by {short(100 * found.error)} points (chance alone "
        f"makes {short(100 * found.chance)}). "
    )
    if mark == "fine":
        said += "They can be taken for what they say."
    elif mends(found):
        said += (
            f"Outputs {by(found.temperature)} are off by {short(100 * found.mended)} on test examples that this number "
        )
        said += "was not fitted to."
    else:
        said += "No number that all outputs are divided by mends that."
    return Finding(
        NAME,
        mark,
        said,
        found.error,
        (min(found.interval[0], found.error), max(found.interval[1], found.error)),
        theorem="The expected log loss exceeds its least value by at least twice the squared distance between the "
        "probability that is given and the true one.",
        claim="foundations.entropy.gibbs_and_pinsker",
        premises=(Premise("the test data played no part in training, nor in any choice", None),),
        headline=f"It is {'too sure' if found.confidence > found.right else 'not sure enough'} of its answers",
    )


def mends(found: Calibration) -> bool:
    """Whether the temperature brings the error down on examples that it was not fitted to."""
    return found.mended < found.error


def by(temperature: float, verbs=("divided", "multiplied")) -> str:
    """ "divided by 4", or "multiplied by 4" for a temperature of 1/4."""
    return f"{verbs[0]} by {short(temperature)}" if temperature >= 1 else f"{verbs[1]} by {short(1 / temperature)}"


def cool(subject, finding) -> Action | None:
    """One number that all outputs are divided by: no answer changes."""
    found = measure(subject)
    low, high = interval(found.losses)
    then = float(found.losses.mean())
    now, t = subject.mean_loss("test"), found.temperature
    if then >= now or not mends(found):
        return None
    effect = Effect("test loss", now, then, (max(0.0, low), high))
    apply = partial(_cooled, temperature=t)
    verb, _, number = by(t, ("divide", "multiply")).partition(" ")
    return Action(f"{verb} the outputs {number}", NAME, effect, "short run", apply, 0.1)


def _cooled(subject, *, key, temperature):
    buffers, rest = eqx.partition(subject.apply.fixed, eqx.is_array)

    def apply(params, buffers, x):
        return eqx.combine(params, buffers, rest)(x) / temperature

    return subject.with_network(Network(apply, subject.params, buffers))
