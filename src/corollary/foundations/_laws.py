"""What the files of this room check in common: arrays that belong together, and probabilities that add up."""

import jax.numpy as jnp
import numpy as np

from corollary._validate import concrete, real, within


def together(**arrays):
    """Require that the shapes broadcast against each other."""
    try:
        jnp.broadcast_shapes(*(a.shape for a in arrays.values()))
    except ValueError:
        shapes = ", ".join(f"{name} {a.shape}" for name, a in arrays.items())
        raise ValueError(f"The shapes of {', '.join(arrays)} must broadcast, got {shapes}.") from None


def fixed_order(value, low: float, open: str = "") -> float:
    """`value` as the order of a distance: a Python number, because other orders are other programs."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise TypeError(f"order must be a number that is known before anything is traced, got {type(value).__name__}.")
    return float(within("order", value, low, open=open))


def probabilities(name: str, value, shape: str, dims: dict | None = None):
    """`value` as probabilities that sum to 1 over all axes."""
    out = within(name, real(name, value, shape, dims), 0.0, 1.0)
    # the sum of n rounded numbers is off by n roundings at most
    slack = 8 * out.size * float(jnp.finfo(out.dtype).eps)
    if concrete(out) and abs(np.asarray(out, float).sum() - 1) > slack:
        raise ValueError(f"{name} must sum to 1, got {np.asarray(out, float).sum()}.")
    return out


def distributions(**laws) -> tuple:
    """Arrays of probabilities that sum to 1 over the last axis, which is as long in all of them."""
    dims = {}
    laws = {name: real(name, value, "... J", dims) for name, value in laws.items()}
    for name, value in laws.items():
        within(name, value, 0.0, 1.0)
        slack = 8 * value.shape[-1] * float(jnp.finfo(value.dtype).eps)
        if concrete(value) and (abs(np.asarray(value).sum(-1) - 1) > slack).any():
            raise ValueError(f"{name} must sum to 1 over its last axis, got sums {np.asarray(value).sum(-1)}.")
    return tuple(laws.values())
