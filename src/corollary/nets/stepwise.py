"""The one step of training, for loops of one's own: where the next batch depends on the network that is trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import optax
from jaxtyping import PyTree

from corollary._types import LossLike, NetworkLike
from corollary.nets._step import Progress, checked_task, descent


class Stepwise(NamedTuple):
    """A training in single steps, all pure functions of arrays.

    `start` is the progress before the first step; `step(progress, batch, key=None)` gives the progress after the next
    one and the loss on the batch before it; `network(progress)` the network that it has come to.
    """

    start: Any
    step: Callable
    network: Callable


def stepwise(network: NetworkLike, loss: LossLike, data: PyTree, optimiser: optax.GradientTransformation) -> Stepwise:
    """The step that `train` takes, and where it begins. `data` stands for the batches: their shapes are looked at.

    >>> training = stepwise(network, "squared", data, optax.sgd(0.1))
    >>> progress, value = training.step(training.start, data)
    >>> bool(training.step(progress, data)[1] < value)
    True
    """
    task = checked_task(network, loss, data, optimiser, reduction="mean", trainable=None, batch_size=None, key=None)
    down = descent(task)

    def step(progress, batch, key=None):
        return down(progress, batch, key)

    start = Progress(task.parts.params, task.optimiser.init(task.parts.params))
    return Stepwise(start, step, lambda progress: task.parts.join(progress.point))
