"""The shapes this room speaks: features (n, d), and a parameter vector (w_1, ..., w_d, b)."""

import jax.numpy as jnp

from corollary._validate import real


def features(x, dims: dict):
    """`x` as an (n, d) array; (n,) is one feature. Binds `n` and `d` in `dims`."""
    x = real("x", x)
    if x.ndim not in (1, 2):
        raise ValueError(f"x must have shape (n,) or (n, d), got {x.shape}.")
    return real("x", x[:, None] if x.ndim == 1 else x, "n d", dims)


def parameters(theta, dims: dict, name: str = "theta"):
    """`theta` as the d weights followed by the bias."""
    theta, d = real(name, theta), dims["d"]
    if theta.shape != (d + 1,):
        raise ValueError(f"{name} must have shape ({d + 1},), {d} weight(s) and the bias, got {theta.shape}.")
    return theta


def extended(x):
    """Every row of `x` followed by a one, so that the bias is a weight like the others."""
    return jnp.concatenate([x, jnp.ones((x.shape[0], 1), x.dtype)], axis=1)
