"""Training in epochs: every example once, in an order that is new each time. One compiled program for all epochs."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from corollary._validate import whole
from corollary.catalog import implements
from corollary.nets._step import Progress, checked_examples, checked_functions, descent, trainable_part
from corollary.nets.training import Trained


@implements("M07.24")
def epoch_batches(key, n: int, batch: int):
    """A random order of `0..n-1` cut into batches, one per row: shape `(n // batch, batch)`.

    If `batch` does not divide `n`, the rest of the order is left out of this epoch: batches of one size have gradients
    that average to the full one.
    """
    n, batch = whole("n", n), whole("batch", batch)
    if batch > n:
        raise ValueError(f"batch must be at most the number of examples {n}, got {batch}.")
    whole_batches = n // batch
    return jax.random.permutation(key, n)[: whole_batches * batch].reshape(whole_batches, batch)


@implements("M07.24")
def train_epochs(
    model,
    loss: Callable,
    data: tuple,
    optimiser: optax.GradientTransformation,
    *,
    epochs: int,
    batch: int,
    key,
    measure: Callable | None = None,
) -> Trained:
    """Run `epochs` epochs of `optimiser` down the gradient of `loss(model, *examples)` over reshuffled batches.

    `losses` has shape `(epochs, batches)`, each before its update; `record` is what `measure(model)` gave before the
    first epoch and after each. Otherwise as `train`. Data of bytes may come as they are: cast them in the loss.
    """
    checked_functions(optimiser, loss=loss, measure=measure)
    data = checked_examples(data)
    if not data:
        raise TypeError("data must be a tuple of at least one array.")
    epochs, batch = whole("epochs", epochs), whole("batch", batch, 1, data[0].shape[0])
    return _train_epochs(model, loss, data, optimiser, key, epochs, batch, measure)


@eqx.filter_jit
def _train_epochs(model, loss, data, optimiser, key, epochs, batch, measure):
    params, static = trainable_part(model, eqx.is_inexact_array)
    descend = descent(loss, static, optimiser)

    def advance(progress, chosen):
        return descend(progress, tuple(a[chosen] for a in data), None)

    def look(params):
        return None if measure is None else measure(eqx.combine(params, static))

    def epoch(carry, k):
        carry, values = jax.lax.scan(advance, carry, epoch_batches(jax.random.fold_in(key, k), data[0].shape[0], batch))
        return carry, (values, look(carry.params))

    last, (losses, record) = jax.lax.scan(epoch, Progress(params, optimiser.init(params)), jnp.arange(epochs))
    if measure is not None:
        record = jax.tree.map(lambda a, b: jnp.concatenate([jnp.asarray(a)[None], b]), look(params), record)
    return Trained(eqx.combine(last.params, static), losses, record)
