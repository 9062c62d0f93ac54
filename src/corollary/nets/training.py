"""Training as one compiled loop, so that an ensemble of networks is one `vmap` over keys.

```python
def loss(model, x, y):
    return jnp.mean((jax.vmap(model)(x)[:, 0] - y) ** 2)

def one(key):
    return train(MLP((2, 64, 1), tanh, key=key), loss, (x, y), optax.adam(1e-2), steps=1000)

one(jax.random.key(0)).model                                     # a trained network
jax.vmap(one)(jax.random.split(jax.random.key(0), 64)).losses    # (64, 1000): 64 of them at once
```
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from corollary._validate import whole
from corollary.catalog import implements
from corollary.nets._step import Progress, checked_examples, checked_functions, descent, trainable_part


class Trained(NamedTuple):
    """What training returns.

    `losses` holds the loss of every step, on its batch and before the update; `record` what `measure` returned
    before the first step and after every `every` steps, along a leading axis (None without `measure`); `state` what a
    loss with a state carried along (None without).
    """

    model: Any
    losses: jax.Array
    record: Any
    state: Any = None


@implements("B02.02")
def train(
    model,
    loss: Callable,
    data: tuple,
    optimiser: optax.GradientTransformation,
    *,
    steps: int,
    key=None,
    batch: int | None = None,
    stochastic: bool = False,
    measure: Callable | None = None,
    every: int = 1,
    trainable=eqx.is_inexact_array,
) -> Trained:
    """Take `steps` steps of `optimiser` down the gradient of `loss(model, *data)`.

    `model` is any pytree, a module or plain arrays; its floating-point arrays are trained, or what the Equinox filter
    `trainable` selects. `data` is a tuple of arrays with the examples along their first axis, or empty. With `batch`
    every step draws so many examples, independently and with replacement; without, it takes all. A `stochastic` loss
    is called with `key=`, fresh in every step. `measure(model)` is recorded along the way.

    Compiled once for each `loss`, `optimiser` and `measure` object: define them once, outside a loop.
    """
    checked_functions(optimiser, loss=loss, measure=measure)
    data, steps, every = checked_examples(data), whole("steps", steps), whole("every", every)
    if steps % every:
        raise ValueError(f"every must divide steps, got {every} and {steps}.")
    if batch is not None:
        if not data:
            raise ValueError("batch needs data to draw from, got none.")
        batch = whole("batch", batch, 1)
    if key is None:
        if batch is not None or stochastic:
            raise TypeError("key must be given with a batch or a stochastic loss: both draw at random.")
        key = jax.random.key(0)  # not used
    return _train(model, loss, data, optimiser, key, steps, batch, stochastic, measure, every, trainable)


@eqx.filter_jit
def _train(model, loss, data, optimiser, key, steps, batch, stochastic, measure, every, trainable):
    params, static = trainable_part(model, trainable)
    descend = descent(loss, static, optimiser, stochastic=stochastic)

    def advance(progress, step):
        batch_key, loss_key = jax.random.split(jax.random.fold_in(key, step))
        return descend(progress, data if batch is None else _draw(batch_key, data, batch), loss_key)

    def look(params):
        return None if measure is None else measure(eqx.combine(params, static))

    def stretch(carry, first):
        carry, values = jax.lax.scan(advance, carry, first + jnp.arange(every))
        return carry, (values, look(carry.params))

    start = Progress(params, optimiser.init(params))
    if measure is None:
        last, losses = jax.lax.scan(advance, start, jnp.arange(steps))
        return Trained(eqx.combine(last.params, static), losses, None)
    last, (losses, record) = jax.lax.scan(stretch, start, jnp.arange(0, steps, every))
    record = jax.tree.map(lambda a, b: jnp.concatenate([jnp.asarray(a)[None], b]), look(params), record)
    return Trained(eqx.combine(last.params, static), losses.ravel(), record)


def _draw(key, data, batch):
    chosen = jax.random.randint(key, (batch,), 0, data[0].shape[0])
    return tuple(a[chosen] for a in data)
