"""Environments as two pure functions, what is seen in them, and how a policy fares.

`reset(key=)` gives a state, and `step(state, action, key=)` an `Outcome`: the next state, the reward, and whether the
episode ended by itself (`terminated`: there is nothing after it) or because time was up (`truncated`: there would have
been more, and the value of the state that was reached still counts). A state is a pytree with an attribute
`observation`, which is what policies see; `actions` is the number of actions, which are 0, 1, … .
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from corollary._show import shown
from corollary._validate import labels, whole
from corollary.catalog import implements
from corollary.network.parts import takes_key


class Outcome(NamedTuple):
    """What one step of an environment leads to."""

    state: PyTree
    reward: Float[Array, ""]
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]


class Timed(NamedTuple):
    """The state of an environment that is seen whole: what is seen, and the number of steps since the reset."""

    observation: Float[Array, "..."]
    time: Int[Array, ""]


class Environment(Protocol):
    """Two pure functions, and the number of actions."""

    @property
    def actions(self) -> int: ...

    def reset(self, *, key: PRNGKeyArray) -> PyTree: ...

    def step(self, state: PyTree, action: Int[Array, ""], *, key: PRNGKeyArray) -> Outcome: ...


@implements("M21.08")
class History(NamedTuple):
    """Transitions in the order in which they were made; the first axis is that of the transitions.

    `next_observation` is what was reached, also where the episode ended there and another one began: no observation
    of the goal is among the first ones.
    """

    observation: Float[Array, "n ..."]
    action: Int[Array, "n"]
    reward: Float[Array, "n"]
    next_observation: Float[Array, "n ..."]
    terminated: Bool[Array, "n"]
    truncated: Bool[Array, "n"]
    __repr__ = shown

    def project(self) -> tuple[Float[Array, "n ..."], Int[Array, "n"]]:
        """The pairs of an observation and the action taken there, without what came of it."""
        return self.observation, self.action

    @property
    def ended(self) -> Bool[Array, "n"]:
        """Whether the transition was the last one of its episode."""
        return self.terminated | self.truncated


class Episodes(NamedTuple):
    """The sum of the rewards and the number of steps of each episode, and whether it ended by itself."""

    returns: Float[Array, "n"]
    lengths: Int[Array, "n"]
    terminated: Bool[Array, "n"]
    __repr__ = shown


@implements("M21.03")
def rollout(env: Environment, policy: Callable, steps: int, *, key: PRNGKeyArray) -> History:
    """The history of `steps` steps, a new episode beginning wherever one ends.

    `policy` is a function of one observation to an action; where it has an argument `key`, it gets one.

    >>> rollout(CartPole(), lambda x: (x[2] > 0).astype(int), 100, key=key).action.shape
    (100,)
    """
    steps = whole("steps", steps)
    _callable(policy)
    fits_together(env)
    history = _rolled(env, policy, steps, key)
    labels("action", history.action, env.actions)
    return history


@eqx.filter_jit
def _rolled(env, policy, steps, key):
    first, key = jax.random.split(key)

    def onward(state, key):
        acting, moving, beginning = jax.random.split(key, 3)
        action = acts(policy, state.observation, acting)
        outcome = env.step(state, action, key=moving)
        ended = outcome.terminated | outcome.truncated
        after = jax.tree.map(lambda a, b: jnp.where(ended, a, b), env.reset(key=beginning), outcome.state)
        seen = outcome.state.observation
        return after, History(state.observation, action, outcome.reward, seen, outcome.terminated, outcome.truncated)

    return jax.lax.scan(onward, env.reset(key=first), jax.random.split(key, steps))[1]


def play(policy: Callable, env: Environment | Any, *, episodes: int = 100, key: PRNGKeyArray) -> Episodes:
    """How a policy fares in `episodes` episodes of an environment of ours, or of one of gymnasium's.

    Ours are played all at once in a compiled program. One of gymnasium's is played step by step as it is, with
    `int(policy(observation))` as the action where it has finitely many, and the array that the policy gives otherwise.
    """
    episodes = whole("episodes", episodes)
    _callable(policy)
    if hasattr(env, "action_space"):
        return _played_step_by_step(policy, env, episodes, key)
    fits_together(env)
    episodes, actions = _played(policy, env, jax.random.split(key, episodes))
    labels("action", actions, env.actions)
    return episodes


@eqx.filter_jit
def _played(policy, env, keys):
    def onward(carry):
        state, key, total, length, odd, _, _ = carry
        key, acting, moving = jax.random.split(key, 3)
        action = acts(policy, state.observation, acting)
        outcome = env.step(state, action, key=moving)
        total = (total + outcome.reward).astype(total.dtype)
        # an action that there is not stays, so that it can be named in the end
        odd = jnp.where((odd >= 0) & (odd < env.actions), action, odd).astype(odd.dtype)
        return outcome.state, key, total, length + 1, odd, outcome.terminated, outcome.truncated

    def one(key):
        first, key = jax.random.split(key)
        no, zero = jnp.asarray(False), jnp.asarray(0)
        start = env.reset(key=first), key, jnp.zeros(()), zero, zero, no, no
        _, _, total, length, action, terminated, _ = jax.lax.while_loop(lambda c: ~(c[-2] | c[-1]), onward, start)
        return Episodes(total, length, terminated), action

    return jax.vmap(one)(keys)


def _played_step_by_step(policy, env, episodes, key):
    discrete = hasattr(env.action_space, "n")
    first, key = jax.random.split(key)
    rows = []
    for seed in np.asarray(jax.random.bits(first, (episodes,), jnp.uint32)) >> 1:
        observation, _ = env.reset(seed=int(seed))
        total, length, terminated, truncated = 0.0, 0, False, False
        while not (terminated or truncated):
            action, key = _acted(policy, jnp.asarray(observation), key)
            action = int(action) if discrete else np.asarray(action, env.action_space.dtype)
            if discrete and not env.action_space.contains(action):
                raise ValueError(f"policy must give an action of {env.action_space}, got {action}.")
            observation, reward, terminated, truncated, _ = env.step(action)
            total, length = total + float(reward), length + 1
        rows.append((total, length, terminated))
    returns, lengths, ended = zip(*rows, strict=True)
    return Episodes(jnp.asarray(returns), jnp.asarray(lengths), jnp.asarray(ended))


@eqx.filter_jit
def _acted(policy, observation, key):
    acting, key = jax.random.split(key)
    return acts(policy, observation, acting), key


def acts(policy, observation, key):
    """The action of a policy, which gets a key where it takes one."""
    return policy(observation, key=key) if takes_key(policy) else policy(observation)


def _callable(policy):
    if not callable(policy):
        raise TypeError(f"policy must be a function of an observation, got {type(policy).__name__}.")


def fits_together(env):
    """Refuse what is no environment: a step must lead from a state to what has the same shapes."""
    for name in ("reset", "step", "actions"):
        if not hasattr(env, name):
            raise TypeError(f"env must have reset(key=), step(state, action, key=) and actions; {name} is missing.")
    state = jax.eval_shape(lambda key: env.reset(key=key), jax.random.key(0))
    if not hasattr(state, "observation"):
        raise TypeError(f"A state of env must have an observation, got {type(state).__name__}.")
    action = jax.ShapeDtypeStruct((), jnp.result_type(int))
    outcome = jax.eval_shape(lambda state, a, key: env.step(state, a, key=key), state, action, jax.random.key(0))
    if not isinstance(outcome, Outcome):
        raise TypeError(f"env.step must return an Outcome, got {type(outcome).__name__}.")
    before, after = _shapes(state), _shapes(outcome.state)
    if before != after:
        changed = next((f"{a} to {b}" for a, b in zip(before, after, strict=False) if a != b), "its structure")
        raise ValueError(f"env.step must keep the shapes and dtypes of the state, and changes {changed}.")
    for name in ("reward", "terminated", "truncated"):
        if (shape := getattr(getattr(outcome, name), "shape", ())) != ():
            raise ValueError(f"The {name} that env.step returns must be one number, got shape {shape}.")


def _shapes(state):
    leaves, structure = jax.tree.flatten(state)
    return [f"{leaf.dtype}{list(leaf.shape)}" for leaf in leaves] + [str(structure)]
