"""Labels of two classes written as signs."""

import jax.numpy as jnp
import numpy as np

from corollary._validate import concrete, real


def signs(name: str, value, shape: str = "n", dims: dict | None = None):
    """`value` as an array of -1 and +1, in floating point."""
    out = real(name, value, shape, dims)
    if concrete(out) and (bad := np.abs(np.asarray(out, float)) != 1).any():
        at = np.argwhere(bad)[0]
        where = f" at index {int(at[0]) if at.size == 1 else tuple(map(int, at))}" if at.size else ""
        raise ValueError(f"{name} must hold the labels -1 and 1, got {np.asarray(out)[tuple(at)]:g}{where}.")
    return out


def halfspaces(x, y, bias: bool):
    r"""The points $y_i(x_i,1)$, or $y_ix_i$ without bias: $y_i(w\cdot x_i+b)>0$ says that $(w,b)$ has a positive
    product with them. Both arguments are (n, d) and (n,) already."""
    z = jnp.concatenate([x, jnp.ones((x.shape[0], 1), x.dtype)], axis=1) if bias else x
    return z * y[:, None]
