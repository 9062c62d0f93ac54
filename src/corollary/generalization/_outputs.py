"""Outputs of a network on a data set, and the margins by which they give the right class."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary._validate import concrete, labels, real
from corollary.network.apart import require_apart
from corollary.network.batches import each


def outputs_of(network, x, batch_size: int):
    """The outputs for all examples `x`, `batch_size` at a time."""
    network = eqx.nn.inference_mode(network)
    require_apart(network, x)
    return _outputs(network, x, batch_size)


@eqx.filter_jit
def _outputs(network, x, batch_size):
    return each(lambda batch: jax.vmap(network)(batch), x, batch_size)


def margins_of(outputs, y):
    """The right output less the largest other one; for a single output itself, with the sign of the label."""
    if outputs.ndim > 2:
        raise ValueError(f"network must return one number per class, got shape {outputs.shape[1:]}.")
    if outputs.ndim == 2 and outputs.shape[1] > 1:
        y = labels("y", y, outputs.shape[1])
        right = jax.nn.one_hot(y, outputs.shape[1], dtype=bool)
        return jnp.sum(jnp.where(right, outputs, 0), 1) - jnp.max(jnp.where(right, -jnp.inf, outputs), 1)
    y = real("y", y)
    if concrete(y) and not any(np.isin(np.asarray(y), pair).all() for pair in ((-1, 1), (0, 1))):
        raise ValueError("y must hold labels -1 and 1, or 0 and 1, for a network with a single output.")
    return jnp.where(y.reshape(-1) > 0, 1, -1) * outputs.reshape(-1)
