"""The gradient at the end of a training, beside the noise with which the data know it."""

from typing import NamedTuple

import numpy as np

from corollary import landscape
from corollary.audit import _plan
from corollary.audit._sample import some
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


def measure_slope(subject, data, budget) -> Slope | None:
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
    slope = measure_slope(subject, some(subject.train, budget.examples, key), budget)
    return slope is not None and slope.still
