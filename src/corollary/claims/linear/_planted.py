"""Data that a hyperplane through the origin separates with a margin that was put there."""

import jax
import jax.numpy as jnp


def planted(key, sets: int, s: int, d: int, gap):
    """Unit vectors `u` (sets, d), points `x` (sets, s, d) and labels `y` with y u·x at least `gap`.

    Gaussian points are labelled by the side of the hyperplane on which they lie, and then moved away from it by `gap`,
    one number or one for each set.
    """
    u_key, x_key = jax.random.split(key)
    u = jax.random.normal(u_key, (sets, d))
    u = u / jnp.linalg.norm(u, axis=1, keepdims=True)
    x = jax.random.normal(x_key, (sets, s, d))
    y = jnp.where(jnp.einsum("ksd,kd->ks", x, u) > 0, 1.0, -1.0)
    gap = jnp.broadcast_to(gap, (sets,))
    return u, x + (gap[:, None] * y)[..., None] * u[:, None], y
