"""One step of length h of the methods of Euler and of Runge and Kutta, on any pytree."""

import jax
import jax.numpy as jnp

METHODS = ("euler", "rk4")


def moved(state, slope, h):
    """The state after a time h at that slope."""
    return jax.tree.map(lambda s, v: s + h * v, state, slope)


def stepped(velocity, state, h, method):
    """`state` a time `h` on, along `velocity(state, share)`: `share` is how much of the step has gone by."""
    if method == "euler":
        return moved(state, velocity(state, 0.0), h)
    dtype = jnp.result_type(*jax.tree.leaves(state))

    # four stages with one traced velocity, which is what compiles; at what share of the step they look, their weights
    def stage(carry, look):
        slope, total = carry
        share, weight = look
        slope = velocity(moved(state, slope, share * h), share)
        return (slope, moved(total, slope, weight)), None

    still = jax.tree.map(jnp.zeros_like, state)
    looks = jnp.array([0, 0.5, 0.5, 1], dtype), jnp.array([1, 2, 2, 1], dtype) / 6
    (_, slope), _ = jax.lax.scan(stage, (still, still), looks)
    return moved(state, slope, h)
