"""One step of training, the same in every loop, and what all loops ask of their arguments."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from corollary._engine.cpu_ready import cpu_ready
from corollary.network._code import by_code
from corollary.network.batches import arrange, count, examples, fold, pair
from corollary.network.loss import BatchLoss, ExampleLoss, resolved
from corollary.network.losses import require_targets
from corollary.network.parts import Parts, require_network, split, takes_key
from corollary.optimization import point


class Progress(NamedTuple):
    """What a step changes: the trained arrays, the optimiser's memory, and the state that the loss carries along."""

    params: Any
    memory: Any
    state: Any = None

    @property
    def point(self):
        """The arrays that are measured and returned: of averaging optimisers the mean."""
        return point(self.params, self.memory)


class Task(NamedTuple):
    """What is trained, on what and how, checked; compiled programs are found by it."""

    parts: Parts
    loss: BatchLoss | ExampleLoss
    data: Any
    optimiser: optax.GradientTransformationExtraArgs
    batch_size: int | None
    keyed: bool  # whether the loss, or the network in it, is called with a key


def checked_task(network, loss, data, optimiser, *, reduction, trainable, batch_size, key) -> Task:
    """The arguments that all loops share; one sentence for what is wrong."""
    if not isinstance(optimiser, optax.GradientTransformation):
        raise TypeError(f"optimiser must be an Optax transformation, got {type(optimiser).__name__}.")
    loss = resolved(loss, reduction)
    of_examples = isinstance(loss, ExampleLoss)
    if of_examples:
        require_network(network)
        data = pair("data", data)
    else:
        data = _arrays(data) if batch_size is None else examples("data", data)
    if key is None and (batch_size is not None or "key" in getattr(loss, "names", ())):
        raise TypeError("key must be given with batch_size or with a BatchLoss that takes a key: both draw at random.")
    keyed = key is not None and (takes_key(network) if of_examples else "key" in loss.names)
    if of_examples:
        x, y = data
        one = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), x)
        require_targets(loss.function, eqx.filter_eval_shape(network, one, **({"key": key} if keyed else {})), y)
    # methods are compared by what they do too: optax.adam(0.1), written twice, is one
    optimiser = optax.with_extra_args_support(optimiser)
    optimiser = optimiser._replace(init=by_code(optimiser.init), update=by_code(optimiser.update))
    return Task(split(network, trainable, inference=False), loss, data, optimiser, batch_size, keyed)


def checked_measure(measure: Callable | None) -> Callable | None:
    """`measure`, compared by what it does; one sentence for what is no function."""
    if measure is not None and not callable(measure):
        raise TypeError(f"measure must be a function of the network, got {type(measure).__name__}.")
    return None if measure is None else by_code(measure)


def descent(task: Task, *, stateful: bool = False) -> Callable:
    """`step(progress, batch, key) -> (progress, value)`: down the gradient of the loss on this batch.

    The optimiser may ask for more than the gradient, as Optax's extra arguments: the `value` of the loss,
    `gradient_fn(params)` on the same batch, and `full_gradient_fn(params)` on all data.
    """

    def objective(params, state, batch, key):
        network = task.parts.join(params)
        found = task.loss(network, batch, key=key if task.keyed else None, state=state)
        if stateful and not (isinstance(found, tuple) and len(found) == 2):
            raise TypeError("with a state the loss must return the pair of its value and the next state.")
        value, state = found if stateful else (found, None)
        if jnp.shape(value) != ():
            raise ValueError(f"loss must return a number, got shape {jnp.shape(value)}.")
        return value, state

    slopes = cpu_ready(jax.value_and_grad(objective, has_aux=True))

    def step(progress, batch, key):
        (value, state), slope = slopes(progress.params, progress.state, batch, key)
        updates, memory = task.optimiser.update(
            slope,
            progress.memory,
            progress.params,
            value=value,
            gradient_fn=lambda params: slopes(params, progress.state, batch, key)[1],
            full_gradient_fn=lambda params: _over_all(
                lambda part: slopes(params, progress.state, part, key)[1], task.data, task.batch_size, task.loss
            ),
        )
        return Progress(optax.apply_updates(progress.params, updates), memory, state), value

    return step


def _over_all(gradient, data, batch_size, loss):
    """The gradient on all data, from those of batches of the size that fits."""
    if batch_size is None:
        return gradient(data)
    summed = isinstance(loss, ExampleLoss) and loss.reduction == "sum"

    def weighted(part):
        share = 1 if summed else count(part) / count(data)
        return jax.tree.map(lambda g: share * g, gradient(part))

    return fold(weighted, (), arrange(data, batch_size), lambda a, b: jax.tree.map(jnp.add, a, b))


def _arrays(data):
    """`data` that a `BatchLoss` gets whole: any pytree of arrays, or nothing."""

    def leaf(path, value):
        try:
            return jnp.asarray(value)
        except (TypeError, ValueError):
            where = "data" + jax.tree_util.keystr(path)
            raise TypeError(f"{where} must be an array of numbers, got {type(value).__name__}.") from None

    return jax.tree_util.tree_map_with_path(leaf, data)
