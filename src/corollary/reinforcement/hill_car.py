r"""A car on the hill $U(q)=0.45\sin3q+0.55$ that is too weak to drive straight up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import labels, one_of, positive, real, whole, within
from corollary.catalog import implements
from corollary.reinforcement.environment import Outcome, Timed, acts

SCHEMES = ("text", "exact", "gym")
GOAL, WALL, END, FASTEST = 0.45, -1.2, 0.6, 0.07
CHUNK = 4096  # states that the search moves at once


def hill(q: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""The height $U(q)=0.45\sin3q+0.55$."""
    return 0.45 * jnp.sin(3 * real("q", q)) + 0.55


def slope(q: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$U'(q)=1.35\cos3q$."""
    return 1.35 * jnp.cos(3 * real("q", q))


@implements("M21.01")
def horizontal_force(
    q: Float[ArrayLike, "..."], push: Float[ArrayLike, "..."], gravity: Scalar, *, exact: bool = True
) -> Float[Array, "..."]:
    r"""The horizontal part of a push along the hill and of the weight `gravity` of a car of mass 1.

    Both are projected onto the tangent and then onto the horizontal: $\alpha/\sqrt{1+U'^2}-gU'/(1+U'^2)$. The text's
    approximation for $|U'|\ll1$ is $\alpha-gU'$ (`exact=False`).
    """
    push, gravity, rise = real("push", push), real("gravity", gravity, ""), slope(q)
    if not exact:
        return push - gravity * rise
    return push / jnp.sqrt(1 + rise**2) - gravity * rise / (1 + rise**2)


@implements("M21.02", "M21.10")
class HillCar(eqx.Module):
    r"""Position and velocity; the actions 0, 1, 2 push with the force $\alpha=-1,0,1$; a reward of -1 per step.

    In one step the force adds `power` $=\delta^2/m$ to the velocity (which is in steps), and the steepest slope takes
    `gravity` $=1.35g\delta^2/m$ from it. `scheme="text"` is the step (21.2), in which the position moves with the old
    velocity and half the force; `"exact"` is the same with `horizontal_force` in place of its approximation. `"gym"`
    is MountainCarContinuous-v0: position by the new velocity, speeds up to 0.07, walls at -1.2 and 0.6. An episode
    terminates beyond 0.45 and is truncated after `limit` steps. `noise=(kicks, law)` adds a random kick to the
    velocity in every step.

    >>> print(optimal_steps(HillCar(), [-0.5, 0.0]).steps)
    66
    """

    power: Float[Array, ""]
    gravity: Float[Array, ""]
    kicks: Float[Array, "k"] | None
    law: Float[Array, "k"] | None
    scheme: str = eqx.field(static=True)
    limit: int = eqx.field(static=True)

    def __init__(
        self,
        scheme: Literal["text", "exact", "gym"] = "gym",
        noise: tuple[ArrayLike, ArrayLike] | None = None,
        *,
        power: Scalar = 0.0015,
        gravity: Scalar = 0.0025,
        limit: int = 999,
    ):
        self.scheme, self.limit = one_of("scheme", scheme, SCHEMES), whole("limit", limit)
        self.power = positive("power", real("power", power, ""))
        self.gravity = positive("gravity", real("gravity", gravity, ""))
        self.kicks = self.law = None
        if noise is not None:
            kicks, law = noise
            dims: dict = {}
            self.kicks = real("the kicks of noise", kicks, "k", dims)
            self.law = within("the law of noise", real("the law of noise", law, "k", dims), 0.0)
            if abs((total := float(np.asarray(self.law).sum())) - 1) > 1e-6:
                raise ValueError(f"The law of noise must sum to one, got {total:.6g}.")

    @property
    def actions(self) -> int:
        """Backward, neutral, forward."""
        return 3

    def reset(self, *, key: PRNGKeyArray) -> Timed:
        """At rest, uniform between -0.6 and -0.4, around the bottom of the valley."""
        q = jax.random.uniform(key, minval=-0.6, maxval=-0.4)
        return Timed(jnp.stack([q, jnp.zeros_like(q)]), jnp.asarray(0))

    def step(self, state: Timed, action: Int[ArrayLike, ""], *, key: PRNGKeyArray | None = None) -> Outcome:
        """One step of the scheme; the key is for the noise."""
        if self.kicks is None:
            kick = 0.0
        elif key is None:
            raise ValueError("A hill with noise needs a key for each step.")
        else:
            kick = jax.random.choice(key, self.kicks, p=self.law)
        observation, time = self.moved(state.observation, action, kick), state.time + 1
        reward = -jnp.ones((), observation.dtype)
        return Outcome(Timed(observation, time), reward, self.reached(observation), time >= self.limit)

    def moved(self, start: Float[ArrayLike, "2"], action: Int[ArrayLike, ""], kick: Scalar = 0.0) -> Float[Array, "2"]:
        r"""$\Phi_\alpha(x,\zeta)$: where one step with the action leads to, with the kick $\zeta$."""
        start = real("start", start, "2")
        push = (labels("action", action, 3, "") - 1) * self.power
        q, v = start
        # U' is 1.35 at its steepest, and `gravity` is what the velocity loses there
        pull = horizontal_force(q, push, self.gravity / 1.35, exact=self.scheme == "exact")
        if self.scheme == "gym":
            v = jnp.clip(v + pull + kick, -FASTEST, FASTEST)
            q = jnp.clip(q + v, WALL, END)
            v = jnp.where((q == WALL) & (v < 0), 0.0, v)
            return jnp.stack([q, v]).astype(start.dtype)
        along = push / jnp.sqrt(1 + slope(q) ** 2) if self.scheme == "exact" else push
        return jnp.stack([q + v + along / 2, v + pull + kick]).astype(start.dtype)

    def reached(self, observation: Float[Array, "2"]) -> Array:
        """Whether the goal is reached: beyond 0.45, and for gymnasium's car not rolling back."""
        q, v = observation
        return (q >= GOAL) & (v >= 0) if self.scheme == "gym" else q > GOAL


class DrivingPlan(NamedTuple):
    """The least number of steps to the goal that the search found, and the actions that take them."""

    steps: int
    actions: Int[Array, "steps"]
    __repr__ = shown


def hitting_time(
    env: HillCar, policy: Callable, start: Float[ArrayLike, "2"], *, key: PRNGKeyArray | None = None
) -> Int[Array, ""]:
    r"""The number of steps that a policy takes from `start` to the goal; the environment's `limit` if it takes longer.

    >>> print(hitting_time(HillCar(), lambda x: 1 + jnp.sign(x[1]).astype(int), [-0.5, 0.0]))
    80
    """
    if not isinstance(env, HillCar):
        raise TypeError(f"env must be a HillCar, got {type(env).__name__}.")
    start = real("start", start, "2")
    if env.kicks is not None and key is None:
        raise ValueError("A hill with noise needs a key.")
    return _driven(env, policy, start, jax.random.key(0) if key is None else key)


@eqx.filter_jit
def _driven(env, policy, start, key):
    def onward(carry):
        state, key, _ = carry
        key, acting, moving = jax.random.split(key, 3)
        outcome = env.step(state, acts(policy, state.observation, acting), key=moving)
        return outcome.state, key, outcome.terminated

    def going(carry):
        state, _, there = carry
        return ~there & (state.time < env.limit)

    state, _, there = jax.lax.while_loop(going, onward, (Timed(start, jnp.asarray(0)), key, env.reached(start)))
    return jnp.where(there, state.time, env.limit)


@implements("M21.03")
def optimal_steps(
    env: HillCar, start: Float[ArrayLike, "2"], *, cells: Float[ArrayLike, "2"] = (4e-3, 4e-4)
) -> DrivingPlan:
    """The quickest way to the goal, by breadth-first search over states that can be reached.

    Of the states within one cell of the plane of position and velocity only the first that was reached goes on. The
    way that is found is one that the car can drive; smaller cells miss less.
    """
    if not isinstance(env, HillCar):
        raise TypeError(f"env must be a HillCar, got {type(env).__name__}.")
    if env.kicks is not None:
        raise ValueError("optimal_steps is for a hill without noise: what a kick will be is not known beforehand.")
    frontier = np.asarray(real("start", start, "2"))[None]
    widths = np.asarray(positive("cells", real("cells", cells, "2")))
    if bool(env.reached(jnp.asarray(frontier[0]))):
        return DrivingPlan(0, jnp.zeros(0, int))
    seen = _cell_numbers(frontier, widths)  # in order
    levels: list[tuple[np.ndarray, np.ndarray]] = []  # of each level: which state each came from, and by which action
    for _ in range(env.limit):
        padded = np.resize(frontier, (-(-len(frontier) // CHUNK) * CHUNK, 2))
        moved = np.concatenate([np.asarray(_all_moves(env, part)) for part in padded.reshape(-1, CHUNK, 2)])
        moved = moved[: len(frontier)].reshape(-1, 2)
        numbers = _cell_numbers(moved, widths)
        numbers, first = np.unique(numbers, return_index=True)
        place = np.searchsorted(seen, numbers)
        fresh = seen[np.minimum(place, len(seen) - 1)] != numbers
        numbers, place, first = numbers[fresh], place[fresh], first[fresh]
        levels.append((first // 3, first % 3))
        there = np.asarray(env.reached(moved[first].T))
        if there.any():
            return _traced_back(levels, int(there.argmax()))
        if not len(first):
            break
        frontier, seen = moved[first], np.insert(seen, place, numbers)
    raise ValueError(f"No way to the goal was found in {len(levels)} steps: take smaller cells or a longer limit.")


@eqx.filter_jit
def _all_moves(env, states):
    return jax.vmap(lambda x: jax.vmap(lambda a: env.moved(x, a))(jnp.arange(3)))(states)


def _cell_numbers(states, widths):
    cells = np.floor(np.asarray(states, float) / np.asarray(widths, float)).astype(np.int64)
    return (cells[:, 0] << 32) + cells[:, 1]


def _traced_back(levels, place):
    actions = []
    for parents, taken in reversed(levels):
        actions.append(int(taken[place]))
        place = parents[place]
    return DrivingPlan(len(levels), jnp.asarray(actions[::-1]))
