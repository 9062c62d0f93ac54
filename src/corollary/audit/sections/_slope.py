"""The gradient at the end of a training, beside the noise with which the data know it."""

from typing import NamedTuple

import numpy as np

from corollary import landscape
from corollary.audit import _plan
from corollary.audit._sample import some
from corollary.audit.finding import Finding, short
from corollary.audit.sections._blind import blind_guess
from corollary.audit.sections._gap import GAINED

# A gradient below so many times what chance gives it is none that the data can see.
STILL = 2.0


class Slope(NamedTuple):
    """The norm of the mean gradient of n examples, and the variance of a single one's."""

    norm: float
    variance: float
    n: int

    @property
    def noise(self) -> float:
        """What chance gives: the root of E|mean of n gradients - its expectation|²."""
        return float(np.sqrt(self.variance / self.n))

    @property
    def still(self) -> bool:
        """Whether training has come to rest as far as the data can tell."""
        return self.norm <= STILL * self.noise


def measure(subject, data, budget) -> Slope | None:
    """The gradient, and how well the data know it; None for one example."""
    n = _plan.looked_at(subject, data)[0]
    if n < 2:
        return None
    batch_size = _plan.gradients_at_once(subject, budget)
    found = landscape.gradient_noise(
        subject.network, subject.loss, data, batch_size=batch_size, trainable=subject.trainable
    )
    return Slope(float(found.gradient_norm), float(found.trace), n)


def rested(subject, budget, key) -> bool:
    """Whether training took something off a blind guess and came to rest: what is left is noise to these data."""
    blind = blind_guess(subject)
    if blind is None or not subject.mean_loss() < (1 - GAINED) * blind:
        return False
    slope = measure(subject, some(subject.train, budget.examples, key), budget)
    return slope is not None and slope.still


def judge(found: Slope | None, batch: int | None, seen) -> Finding:
    """The gradient against the noise with which the data know it: a slope below that is none that they can see."""
    if found is None:
        return Finding("gradient norm", "not applicable", "One example has no spread: give more training data.")
    (norm, variance, n), noise, still = found, found.noise, found.still
    settled = batch is not None and norm <= np.sqrt(variance / batch)
    if still:
        sentence = (
            f"The gradient ({short(norm)}) is about what chance alone gives for {n:,} examples ({short(noise)}), or "
            "less: training has come to rest as far as these data can tell."
        )
    elif settled:
        sentence = (
            f"The gradient ({short(norm)}) is not zero, but below the noise of a batch of {batch} "
            f"({short(np.sqrt(variance / batch))}): with this batch, only a smaller step would come closer to rest."
        )
    else:
        sentence = (
            f"The gradient ({short(norm)}) is well above what chance alone gives for {n:,} examples ({short(noise)}): "
            "this is not a stationary point of the training loss, and more training would still lower it."
        )
    return Finding(
        "gradient norm",
        "fine" if still or settled else "look",
        sentence,
        norm,
        exact=True,
        theorem="At a minimum the gradient vanishes; a point is ε-stationary if its norm is at most ε.",
        claim="landscape.conditions.second_order_conditions",
        premises=(seen,),
        headline="More training would still lower the loss",
    )
