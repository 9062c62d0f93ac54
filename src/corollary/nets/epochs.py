"""Training in epochs: every example once, in an order that is new each time. One compiled program for all epochs."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, PRNGKeyArray, PyTree

from corollary._types import LossLike, NetworkLike
from corollary._validate import whole
from corollary.catalog import implements
from corollary.nets._step import Progress, checked_measure, checked_task, descent
from corollary.nets.training import Trained
from corollary.network.batches import count


@implements("M07.24")
def epoch_batches(n: int, batch_size: int, *, key: PRNGKeyArray) -> Array:
    """A random order of `0..n-1` cut into batches, one per row: shape `(n // batch_size, batch_size)`.

    If `batch_size` does not divide `n`, the rest of the order is left out of this epoch: batches of one size have
    gradients that average to the full one.
    """
    n, batch_size = whole("n", n), whole("batch_size", batch_size)
    if batch_size > n:
        raise ValueError(f"batch_size must be at most the number of examples {n}, got {batch_size}.")
    batches = n // batch_size
    return jax.random.permutation(key, n)[: batches * batch_size].reshape(batches, batch_size)


@implements("M07.24")
def train_epochs(
    network: NetworkLike,
    loss: LossLike,
    data: PyTree,
    optimiser: optax.GradientTransformation,
    *,
    epochs: int,
    batch_size: int,
    key: PRNGKeyArray,
    measure: Callable | None = None,
    reduction: str = "mean",
    trainable: PyTree | None = None,
) -> Trained:
    """Run `epochs` epochs of `optimiser` down the gradient of the loss over reshuffled batches.

    `losses` has shape `(epochs, batches)`, each before its update; `record` is what `measure(network)` gave before the
    first epoch and after each. Otherwise as `train`. Data of bytes may come as they are: cast them in the network.
    """
    task = checked_task(
        network,
        loss,
        data,
        optimiser,
        reduction=reduction,
        trainable=trainable,
        batch_size=whole("batch_size", batch_size),
        key=key,
    )
    epochs = whole("epochs", epochs)
    whole("batch_size", batch_size, 1, count(task.data))
    params, losses, record = _train_epochs(task, key, epochs, checked_measure(measure))
    return Trained(eqx.combine(params, network), losses, record)


@eqx.filter_jit
def _train_epochs(task, key, epochs, measure):
    descend, n = descent(task), count(task.data)
    params = task.parts.params

    def look(params):
        return None if measure is None else measure(task.parts.join(params))

    def epoch(carry, k):
        epoch_key = jax.random.fold_in(key, k)
        order = epoch_batches(n, task.batch_size, key=epoch_key)

        def advance(progress, place):
            batch = jax.tree.map(lambda a: a[order[place]], task.data)
            return descend(progress, batch, jax.random.fold_in(epoch_key, place))

        carry, values = jax.lax.scan(advance, carry, jnp.arange(len(order)))
        return carry, (values, look(carry.point))

    last, (losses, record) = jax.lax.scan(epoch, Progress(params, task.optimiser.init(params)), jnp.arange(epochs))
    if measure is not None:
        record = jax.tree.map(lambda a, b: jnp.concatenate([jnp.asarray(a)[None], b]), look(params), record)
    return last.point, losses, record
