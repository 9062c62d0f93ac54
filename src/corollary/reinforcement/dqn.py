r"""Deep Q-learning as one compiled program: playing, replay and training, for one seed or for many at once.

```python
run = dqn(CartPole(), network, optax.adam(1e-3), steps=50_000, key=key)
play(Greedy(run.network), CartPole(), key=key).returns                        # how it fares now
jax.vmap(lambda k: dqn(env, network, optax.adam(1e-3), steps=50_000, key=k))(keys)       # many seeds in one program
```
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from corollary._show import shown
from corollary._types import NetworkLike, Scalar
from corollary._validate import real, whole, within
from corollary.catalog import implements
from corollary.nets import stepwise
from corollary.network import BatchLoss, huber
from corollary.network.parts import require_network, split
from corollary.reinforcement.environment import Environment, History, fits_together
from corollary.reinforcement.values import actions_of, chosen_values, discount, value_target


class Greedy(eqx.Module):
    """The policy that takes the action of the largest value."""

    network: Any

    def __call__(self, observation: PyTree) -> Int[Array, ""]:
        return jnp.argmax(self.network(observation))


class DeepQ(NamedTuple):
    """The network at the end, the mean loss of each round of training, and all that was played, in order.

    `snapshots` are the networks after each of as many equal parts of the run as were asked for, stacked.
    """

    network: Any
    losses: Float[Array, "rounds"]
    history: History
    snapshots: Any
    __repr__ = shown


@implements("M21.19", "M21.21")
def dqn(
    env: Environment,
    network: NetworkLike,
    optimiser: optax.GradientTransformation,
    *,
    steps: int,
    key: PRNGKeyArray,
    double: bool = False,
    target_every: int = 128,
    target_average: Scalar = 0.0,
    beta: Scalar = 0.99,
    batch_size: int = 64,
    collect: int = 256,
    updates: int = 128,
    warmup: int = 1000,
    epsilon: Scalar = 0.04,
    exploration: Scalar = 0.16,
    snapshots: int = 1,
) -> DeepQ:
    r"""Learn the values of all actions in `env` from `steps` steps of it, with replay and a target that is held back.

    In rounds, `collect` steps are played and then `updates` steps of `optimiser` taken, each down Huber's loss of
    $r+\beta\max_{a'}\bar Q(x',a')-Q(x,a)$ on `batch_size` transitions drawn from all that were played so far; there is
    no training before `warmup` of them. With `double` the action is chosen by $Q$ and valued by $\bar Q$. Every
    `target_every` updates $\bar Q$ becomes `target_average` of itself and the rest of $Q$: 0 copies it. Where time was
    up the value of the state that was reached counts, where the episode ended it does not.

    A random action is taken with a probability that falls from 1 to `epsilon` over the share `exploration` of the
    steps. The defaults are those that are in use for CartPole. Everything random is a function of the key. With
    `snapshots` the networks on the way are kept too.
    """
    require_network(network)
    fits_together(env)
    _settings(steps, target_every, batch_size, collect, updates, warmup)
    if steps % collect:
        raise ValueError(f"collect must divide steps, got {collect} and {steps}.")
    if (steps // collect) % whole("snapshots", snapshots):
        raise ValueError(f"snapshots must divide the {steps // collect} rounds, got {snapshots}.")
    if not isinstance(optimiser, optax.GradientTransformation):
        raise TypeError(f"optimiser must be an Optax transformation, got {type(optimiser).__name__}.")
    numbers = discount(beta), _share("target_average", target_average), _share("epsilon", epsilon)
    state = jax.eval_shape(lambda key: env.reset(key=key), key)
    given = actions_of(network, jax.tree.map(lambda a: jax.ShapeDtypeStruct((1, *a.shape), a.dtype), state.observation))
    if given != env.actions:
        raise ValueError(f"network must give one value for each of the {env.actions} actions of env, got {given}.")
    sizes = steps, target_every, batch_size, collect, updates, warmup, snapshots
    return _learned(env, network, optimiser, key, bool(double), sizes, numbers, _share("exploration", exploration))


@BatchLoss
def _miss(network, batch):
    observation, action, y = batch
    return jnp.mean(jax.vmap(huber)(chosen_values(network, observation, action), y))


@eqx.filter_jit
def _learned(env, network, optimiser, key, double, sizes, numbers, exploration):
    steps, target_every, batch_size, collect, updates, warmup, snapshots = sizes
    beta, average, least = numbers
    parts = split(network)
    first, key = jax.random.split(key)
    start = env.reset(key=first)
    blank = _blank(env, start, steps)
    some = jax.tree.map(lambda a: a[:batch_size], blank)
    example = some.observation, some.action, some.reward.astype(jnp.result_type(float))
    training = stepwise(network, _miss, example, optimiser)

    def playing(params):
        greedy = parts.join(params)

        def one(carry, key):
            state, t = carry
            acting, choosing, moving, beginning = jax.random.split(key, 4)
            falling = jnp.minimum(t / jnp.maximum(exploration * steps, 1), 1)
            at_random = jax.random.bernoulli(choosing, 1 + falling * (least - 1))
            any_action = jax.random.randint(acting, (), 0, env.actions)
            action = jnp.where(at_random, any_action, jnp.argmax(greedy(state.observation)))
            outcome = env.step(state, action, key=moving)
            ended = outcome.terminated | outcome.truncated
            after = jax.tree.map(lambda a, b: jnp.where(ended, a, b), env.reset(key=beginning), outcome.state)
            seen = outcome.state.observation
            row = History(state.observation, action, outcome.reward, seen, outcome.terminated, outcome.truncated)
            return (after, t + 1), row

        return one

    def descending(carry, drawn):
        progress, held, k = carry
        network = training.network(progress)
        y = value_target(parts.join(held), drawn, beta, chooser=network if double else None)
        batch = drawn.observation, drawn.action, y.astype(example[2].dtype)
        progress, value = training.step(progress, batch)
        k = k + 1
        renewed = jax.tree.map(lambda h, p: average * h + (1 - average) * p, held, progress.params)
        held = jax.tree.map(lambda h, p: jnp.where(k % target_every == 0, p, h).astype(h.dtype), held, renewed)
        return (progress, held, k), value

    def one_round(carry, key):
        progress, held, k, state, history, t = carry
        moving, drawing = jax.random.split(key)
        (state, end), rows = jax.lax.scan(playing(progress.params), (state, t), jax.random.split(moving, collect))
        history = jax.tree.map(lambda h, r: jax.lax.dynamic_update_slice_in_dim(h, r, t, 0), history, rows)

        def train(carry):
            chosen = jax.random.randint(drawing, (updates, batch_size), 0, end)
            carry, values = jax.lax.scan(descending, carry, jax.tree.map(lambda h: h[chosen], history))
            return carry, jnp.mean(values)

        def wait(carry):
            return carry, jnp.zeros((), example[2].dtype)

        (progress, held, k), value = jax.lax.cond(end >= warmup, train, wait, (progress, held, k))
        return (progress, held, k, state, history, end), value

    zero = jnp.zeros((), int)
    carry = training.start, training.start.params, zero, start, blank, zero
    keys = jax.random.split(key, steps // collect).reshape(snapshots, -1)

    def one_part(carry, keys):
        carry, losses = jax.lax.scan(one_round, carry, keys)
        return carry, (losses, carry[0].params)

    (progress, _, _, _, history, _), (losses, kept) = jax.lax.scan(one_part, carry, keys)
    return DeepQ(training.network(progress), losses.ravel(), history, parts.join(kept))


def _blank(env, state, steps):
    """A history of zeros to be filled in."""
    outcome = jax.eval_shape(lambda s, k: env.step(s, jnp.zeros((), int), key=k), state, jax.random.key(0))
    action = jax.ShapeDtypeStruct((), jnp.result_type(int))
    seen = state.observation
    row = History(seen, action, outcome.reward, outcome.state.observation, outcome.terminated, outcome.truncated)
    return jax.tree.map(lambda a: jnp.zeros((steps, *a.shape), a.dtype), row)


def _settings(steps, target_every, batch_size, collect, updates, warmup):
    for name, value in (("steps", steps), ("target_every", target_every), ("batch_size", batch_size)):
        whole(name, value)
    for name, value in (("collect", collect), ("updates", updates)):
        whole(name, value)
    whole("warmup", warmup, 0)


def _share(name, value):
    return within(name, real(name, value, ""), 0.0, 1.0)
