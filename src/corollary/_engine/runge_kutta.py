"""Ordinary differential equations by the methods of Euler and of Runge and Kutta, on any pytree."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

METHODS = ("euler", "rk4")


def moved(state, slope, h):
    """The state after a time h at that slope."""
    return jax.tree.map(lambda s, v: s + h * v, state, slope)


def stepped(velocity: Callable, state, h, method: str = "rk4"):
    """`state` a time `h` on, along `velocity(state, share)`: `share` is how much of the step has gone by."""
    if method == "euler":
        return moved(state, velocity(state, 0.0), h)
    dtype = jnp.result_type(*jax.tree.leaves(state))
    # k_i = velocity(start + a_i h k_{i-1}), gathered with weight b_i h: one traced velocity for four stages
    tableau = jnp.array([0, 0.5, 0.5, 1], dtype), jnp.array([1, 2, 2, 1], dtype) / 6

    def stage(carry, weights):
        slope, gathered = carry
        a, b = weights
        slope = velocity(moved(state, slope, a * h), a)
        return (slope, moved(gathered, slope, b * h)), None

    still = jax.tree.map(jnp.zeros_like, state)
    (_, move), _ = jax.lax.scan(stage, (still, still), tableau)
    return moved(state, move, 1)


def flow(velocity: Callable, start, times, *, substeps: int, observe: Callable = lambda state: state):
    """The solution of `state' = velocity(state)` from time 0: what `observe` sees at each of the increasing `times`.

    Fourth order, `substeps` equal steps to each time from the one before. Second: the state at the end.
    """
    dtype = jnp.result_type(*jax.tree.leaves(start))

    def onward(state, length):
        h = length / substeps
        state = jax.lax.fori_loop(0, substeps, lambda _, s: stepped(lambda s, _: velocity(s), s, h), state)
        return state, observe(state)

    end, seen = jax.lax.scan(onward, start, jnp.diff(times, prepend=0.0).astype(dtype))
    return seen, end
