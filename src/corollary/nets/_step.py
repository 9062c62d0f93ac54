"""One step of training, the same in every loop, and what all loops ask of their arguments."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from corollary._engine.cpu_ready import cpu_ready


class Progress(NamedTuple):
    """What a step changes: the trained arrays, the optimiser's memory, and the state that the loss carries along."""

    params: Any
    memory: Any
    state: Any = None


def descent(loss: Callable, static, optimiser, *, stochastic: bool = False, stateful: bool = False) -> Callable:
    """`step(progress, examples, key) -> (progress, value)`: down the gradient of the loss on these examples."""

    def objective(params, state, examples, key):
        model = eqx.combine(params, static)
        extra = {"key": key} if stochastic else {}
        value, state = loss(model, state, *examples, **extra) if stateful else (loss(model, *examples, **extra), None)
        if jnp.shape(value) != ():
            raise ValueError(f"loss must return a number, got shape {jnp.shape(value)}.")
        return value, state

    slopes = cpu_ready(jax.value_and_grad(objective, has_aux=True))

    def step(progress, examples, key):
        (value, state), slope = slopes(progress.params, progress.state, examples, key)
        updates, memory = optimiser.update(slope, progress.memory, progress.params)
        return Progress(optax.apply_updates(progress.params, updates), memory, state), value

    return step


def trainable_part(model, trainable):
    """The arrays that are trained, and the rest."""
    params, static = eqx.partition(model, trainable)
    if not jax.tree.leaves(params):
        raise ValueError("model must have at least one floating-point array to train.")
    return params, static


def checked_examples(data) -> tuple:
    """`data` as a tuple of arrays with a common first axis; it may be empty."""
    if not isinstance(data, tuple | list):
        raise TypeError(f"data must be a tuple of arrays, got {type(data).__name__}.")
    data = tuple(map(jnp.asarray, data))
    if len({a.shape[0] if a.ndim else -1 for a in data}) > 1 or any(a.ndim == 0 or a.shape[0] == 0 for a in data):
        raise ValueError(f"data must be arrays with the same first axis, got shapes {[a.shape for a in data]}.")
    return data


def checked_functions(optimiser, **functions):
    """One sentence for what is no Optax method or no function; a `measure` may be left out."""
    for name, value in functions.items():
        if not callable(value) and not (name == "measure" and value is None):
            raise TypeError(f"{name} must be a function, got {type(value).__name__}.")
    if not isinstance(optimiser, optax.GradientTransformation):
        raise TypeError(f"optimiser must be an Optax transformation, got {type(optimiser).__name__}.")
