"""A pole on a cart that is pushed to the left or to the right: CartPole-v1 of gymnasium as two pure functions."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray

from corollary._validate import labels, whole
from corollary.reinforcement.environment import Outcome, Timed

GRAVITY, CART, POLE, HALF_LENGTH, FORCE, INTERVAL = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
FARTHEST, STEEPEST = 2.4, np.deg2rad(12.0)


class CartPole(eqx.Module):
    """Position, velocity, angle, angular velocity; a reward of 1 per step while the pole stands.

    The episode terminates when the cart is farther out than 2.4 or the pole leans by more than 12 degrees, and is
    truncated after `limit` steps.

    >>> env = CartPole()
    >>> env.step(env.reset(key=key), 1, key=key).reward
    Array(1., dtype=float32)
    """

    limit: int = eqx.field(static=True)

    def __init__(self, limit: int = 500):
        self.limit = whole("limit", limit)

    @property
    def actions(self) -> int:
        """To the left, to the right."""
        return 2

    def reset(self, *, key: PRNGKeyArray) -> Timed:
        """All four numbers uniform between -0.05 and 0.05."""
        return Timed(jax.random.uniform(key, (4,), minval=-0.05, maxval=0.05), jnp.asarray(0))

    def step(self, state: Timed, action: Int[ArrayLike, ""], *, key: PRNGKeyArray | None = None) -> Outcome:
        """The state after 0.02 seconds of force 10 in the direction of the action. Nothing here is random."""
        push = jnp.where(labels("action", action, 2, "") == 1, FORCE, -FORCE)
        observation = _after(state.observation, push)
        time = state.time + 1
        fallen = (jnp.abs(observation[0]) > FARTHEST) | (jnp.abs(observation[2]) > STEEPEST)
        reward = jnp.ones((), observation.dtype)
        return Outcome(Timed(observation, time), reward, fallen, time >= self.limit)


def _after(observation: Float[Array, "4"], push: Float[Array, ""]) -> Float[Array, "4"]:
    """Euler's step for the equations of a pole that is hinged on a cart without friction."""
    _, velocity, angle, spin = observation
    sine, cosine = jnp.sin(angle), jnp.cos(angle)
    mass = CART + POLE
    pull = (push + POLE * HALF_LENGTH * spin**2 * sine) / mass
    turning = (GRAVITY * sine - cosine * pull) / (HALF_LENGTH * (4 / 3 - POLE * cosine**2 / mass))
    sliding = pull - POLE * HALF_LENGTH * turning * cosine / mass
    return observation + INTERVAL * jnp.stack([velocity, sliding, spin, turning]).astype(observation.dtype)
