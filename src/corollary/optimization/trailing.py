r"""A moving average of the parameters beside those that are moved: often the better network."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax

from corollary._types import Scalar
from corollary._validate import within
from corollary.optimization.minimize import Pointed, point


def trailing(optimiser: optax.GradientTransformation, delta: Scalar) -> optax.GradientTransformationExtraArgs:
    r"""The same steps, but the point is $\bar\theta_{k+1}=d\bar\theta_k+(1-d)\theta_{k+1}$, a moving average.

    $d=\min(\delta,\frac{k+1}{k+10})$: `delta` is the decay in the long run; early on the average is shorter, so that
    the start is soon forgotten. What `nets.fit` records and returns is that average.
    """
    if not isinstance(optimiser, optax.GradientTransformation):
        raise TypeError(f"optimiser must be an Optax transformation, got {type(optimiser).__name__}.")
    delta, inner = within("delta", delta, 0.0, 1.0, open="high"), optax.with_extra_args_support(optimiser)

    def init(params):
        return Pointed(params, (inner.init(params), jnp.zeros((), jnp.int32)))

    def update(updates, state, params, **extra):
        memory, k = state.memory
        updates, memory = inner.update(updates, memory, params, **extra)
        reached = point(optax.apply_updates(params, updates), memory)
        share = 1 - jnp.minimum(delta, (k + 1) / (k + 10))
        mean = jax.tree.map(lambda old, new: old + (share * (new - old)).astype(old.dtype), state.point, reached)
        return updates, Pointed(mean, (memory, k + 1))

    return optax.GradientTransformationExtraArgs(init, update)
