"""Training as one compiled loop, so that an ensemble of networks is one `vmap` over keys.

```python
def one(key):
    return train(MLP((2, 64, 1), tanh, key=key), "squared", (x, y), optax.adam(1e-2), steps=1000)

one(jax.random.key(0)).network                                   # a trained network
jax.vmap(one)(jax.random.split(jax.random.key(0), 64)).losses    # (64, 1000): 64 of them at once
```
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import PRNGKeyArray, PyTree

from corollary._charts import lines, stretches
from corollary._show import shown
from corollary._types import LossLike, NetworkLike
from corollary._validate import whole
from corollary.catalog import implements
from corollary.nets._step import Progress, checked_measure, checked_task, descent
from corollary.network.batches import count


class Trained(NamedTuple):
    """What training returns.

    `losses` holds the loss of every step, on its batch and before the update; `record` what `measure` returned
    before the first step and after every `every` steps, along a leading axis (None without `measure`); `state` what a
    loss with a state carried along (None without).
    """

    network: Any
    losses: jax.Array
    record: Any
    state: Any = None

    __repr__ = shown

    def plot(self) -> Any:
        """An Altair chart of the loss by step; one line per network of an ensemble.

        Of more than 500 steps each point is the mean of the steps since the point before it.
        """
        losses = np.asarray(self.losses, float)
        if losses.ndim > 2 or losses.size == 0:
            raise ValueError(f"plot draws the losses of one run or of a row of runs, got shape {losses.shape}.")
        ends, means = stretches(np.atleast_2d(losses))
        rows = [
            {"step": int(t), "loss": float(v), "run": f"run {i}"}
            for i, line in enumerate(means)
            for t, v in zip(ends, line, strict=True)
        ]
        return lines(rows, "step", "loss", colour="run" if losses.ndim == 2 else None)


@implements("B02.02")
def train(
    network: NetworkLike,
    loss: LossLike,
    data: PyTree,
    optimiser: optax.GradientTransformation,
    *,
    steps: int,
    key: PRNGKeyArray | None = None,
    batch_size: int | None = None,
    measure: Callable | None = None,
    every: int = 1,
    reduction: str = "mean",
    trainable: PyTree | None = None,
) -> Trained:
    """Take `steps` steps of `optimiser` down the gradient of the loss.

    `loss` is a name, `loss(output, target)` of one example, of which the mean is meant (or the sum, `reduction="sum"`),
    or `BatchLoss(f)` with `f(network, batch)`; `data` is the pair `(x, y)`, and for a `BatchLoss` any pytree of arrays.
    Trained are the real floating-point arrays of `network`, or those that the Equinox filter `trainable` selects;
    never the buffers of a `Network`. A `BatchLoss` takes any pytree for a network, plain arrays too.

    With `batch_size` every step draws so many examples, independently and with replacement; without, it takes all.
    With a `key` the network is called with `key=` where it takes one, so that dropout acts, and so is a `BatchLoss`
    that takes one: a fresh one in every step. `measure(network)` is recorded along the way.

    `optimiser` is any Optax transformation; those of `corollary.optimization` may ask for gradients elsewhere or on all
    data. Where it speaks of another point than the one it moves, as `averaged` does, that one is measured and returned.

    Compiled once for networks, data, loss, optimiser and `measure` that differ in the numbers of their arrays alone.

    >>> run = train(network, "squared", data, optax.sgd(0.1), steps=20)
    >>> bool(run.losses[-1] < run.losses[0])
    True
    """
    steps, every = whole("steps", steps), whole("every", every)
    if steps % every:
        raise ValueError(f"every must divide steps, got {every} and {steps}.")
    batch_size = None if batch_size is None else whole("batch_size", batch_size)
    task = checked_task(
        network, loss, data, optimiser, reduction=reduction, trainable=trainable, batch_size=batch_size, key=key
    )
    key = jax.random.key(0) if key is None else key  # not used then
    params, losses, record = _train(task, key, steps, checked_measure(measure), every)
    return Trained(eqx.combine(params, network), losses, record)


@eqx.filter_jit
def _train(task, key, steps, measure, every):
    descend = descent(task)
    params = task.parts.params

    def advance(progress, step):
        batch_key, loss_key = jax.random.split(jax.random.fold_in(key, step))
        batch = task.data if task.batch_size is None else _draw(batch_key, task.data, task.batch_size)
        return descend(progress, batch, loss_key)

    def look(params):
        return None if measure is None else measure(task.parts.join(params))

    def stretch(carry, first):
        carry, values = jax.lax.scan(advance, carry, first + jnp.arange(every))
        return carry, (values, look(carry.point))

    start = Progress(params, task.optimiser.init(params))
    if measure is None:
        last, losses = jax.lax.scan(advance, start, jnp.arange(steps))
        return last.point, losses, None
    last, (losses, record) = jax.lax.scan(stretch, start, jnp.arange(0, steps, every))
    record = jax.tree.map(lambda a, b: jnp.concatenate([jnp.asarray(a)[None], b]), look(params), record)
    return last.point, losses.ravel(), record


def _draw(key, data, batch_size):
    chosen = jax.random.randint(key, (batch_size,), 0, count(data))
    return jax.tree.map(lambda a: a[chosen], data)
