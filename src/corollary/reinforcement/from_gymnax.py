"""Environments of gymnax (1.0 or later), which are compiled like ours."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray, PyTree

from corollary._validate import labels
from corollary.reinforcement.environment import Outcome


class GymnaxState(NamedTuple):
    """What is seen, and gymnax's own state."""

    observation: Float[Array, "..."]
    inner: PyTree


class GymnaxEnvironment(eqx.Module):
    """An environment of gymnax as two pure functions. It is not reset behind the caller's back."""

    params: PyTree
    env: Any = eqx.field(static=True)

    @property
    def actions(self) -> int:
        """The number of actions."""
        return int(self.env.num_actions)

    def reset(self, *, key: PRNGKeyArray) -> GymnaxState:
        """The first state of an episode."""
        return GymnaxState(*self.env.reset_env(key, self.params))

    def step(self, state: GymnaxState, action: Int[ArrayLike, ""], *, key: PRNGKeyArray) -> Outcome:
        """One step; an episode that runs out of time is truncated, and not terminated."""
        action = labels("action", action, self.actions, "")
        observation, inner, reward, terminated, _ = self.env.step_env(key, state.inner, action, self.params)
        truncated = self.env.is_truncated(inner, self.params)
        return Outcome(GymnaxState(observation, inner), reward, jnp.asarray(terminated), jnp.asarray(truncated))


def from_gymnax(env: Any, params: PyTree = None) -> GymnaxEnvironment:
    """An environment of gymnax (`pip install corollary[rl]`) as one of ours; `params` are its own unless given.

    `env, params = gymnax.make("CartPole-v1")` and then `from_gymnax(env, params)`.
    """
    missing = [name for name in ("reset_env", "step_env", "is_truncated", "num_actions") if not hasattr(env, name)]
    if missing:
        raise TypeError(
            f"env must be an environment of gymnax 1.0 or later, got {type(env).__name__} without {', '.join(missing)}."
        )
    return GymnaxEnvironment(env.default_params if params is None else params, env)
