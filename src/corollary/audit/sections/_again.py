"""The training of a subject as one function of data and key, which a program may repeat on other data."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from corollary.audit.retrain import batch_of, optimiser_of, steps_of
from corollary.nets import train
from corollary.network.losses import IGNORED


class Again(eqx.Module):
    """Training from `network`, with step and decay as numbers, so that others of its shape find the program again.

    Targets are pairs, of which the first is trained on. `optimiser` is None for plain gradient descent.
    """

    network: Any
    loss: Any
    optimiser: Any
    step: jax.Array
    decay: jax.Array
    trainable: Any
    steps: int
    batch_size: int | None

    def __call__(self, data, key):
        x, (y, _) = data
        last = optax.sgd(self.step) if self.optimiser is None else self.optimiser
        optimiser = optax.chain(optax.add_decayed_weights(self.decay), last)
        given = dict(steps=self.steps, key=key, batch_size=self.batch_size, trainable=self.trainable)
        return train(self.network, self.loss, (x, y), optimiser, **given).network


class Wrong(eqx.Module):
    """The share of an example's places that have another class; targets are pairs, of which the second are labels."""

    axis: int | None = eqx.field(static=True)
    threshold: float = eqx.field(static=True)

    def __call__(self, output, target):
        labels = target[1]
        said = output.reshape(labels.shape) > self.threshold if self.axis is None else jnp.argmax(output, self.axis - 1)
        known = labels != IGNORED
        return ((said != labels) & known).sum() / jnp.maximum(known.sum(), 1)


class Lost(eqx.Module):
    """The loss of an example; targets are pairs, of which the first is what the loss takes."""

    loss: Any

    def __call__(self, output, target):
        return self.loss(output, target[0])


def again(subject, start, examples: int, decay: float | None = None) -> Again:
    """The training of the subject from `start`, on so many examples; with another decay if one is given."""
    plain = subject.optimiser is None and subject.learning_rate is not None
    batch = batch_of(subject)
    number = lambda a: jnp.asarray(a, subject.dtype)  # noqa: E731
    # an optimiser that was given has its own decay in it, and another one comes on top
    own = subject.weight_decay or 0.0 if subject.optimiser is None else 0.0
    return Again(
        subject.at(start),
        subject.loss,
        None if plain else subject.optimiser or optimiser_of(subject.replaced(weight_decay=None)),
        number(subject.learning_rate or 0.0),
        number(own if decay is None else decay),
        subject.trainable,
        steps_of(subject),
        None if batch is None or batch >= examples else batch,
    )


def judged(subject):
    """The loss of an example by which trainings are compared: whether its class is wrong, or the loss itself."""
    if subject.classes is None:
        return Lost(subject.loss.function)
    return Wrong(subject.class_axis, subject.threshold)


def paired(subject, split):
    """The data with pairs of targets and labels (the targets themselves where there are no classes)."""
    x, y = subject.data(split)
    return x, (y, y if subject.classes is None else subject.labels(split))
