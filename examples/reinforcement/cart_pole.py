"""Deep Q-learning of CartPole-v1 over many seeds in one program: how it ends, and whether its collapse was foretold.

    python examples/reinforcement/cart_pole.py                 # 64 seeds, on an accelerator
    python examples/reinforcement/cart_pole.py --key 11        # other seeds
    python examples/reinforcement/cart_pole.py --seeds 4 --steps 50176     # two cores
    python examples/reinforcement/cart_pole.py --tiny          # seconds, to see that it runs

Plain deep Q-learning with the hyperparameters and the 50,176 steps of RL Zoo is one thing; 200,704 steps with double
Q-learning, averaged targets, a falling step and rewards of 1/100 another. The rewards matter as much as the rest: with
rewards of 1 values are near 100, and Huber's loss counts a miss by 100 hardly more than one by 1. The few transitions
that end an episode are then outvoted, and values rise beyond 100, the most that any policy can have.

Each of them is judged by the mean return of 100 greedy episodes at the end of every run. On the way, 14 times a run,
the greedy return is measured and beside it, on 128 transitions drawn from all that was played so far, the fastest
growth that the linearised update has (`td_stability`), as a share of its largest rate. A collapse is a return that
falls to less than half by the next look; the area under the curve says how often a run that is about to collapse has
the larger growth than one that is not (0.5: no better than a coin). At last one policy is played in gymnasium, where
that is installed.
"""

import argparse
import importlib.util
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.nets import MLP, relu
from corollary.reinforcement import CartPole, Greedy, dqn, play
from corollary.reinforcement.stability import transition_kernels

ENV, BETA, GOOD = CartPole(), 0.99, 475.0


class Recipe(NamedTuple):
    """Steps of the environment, what a reward counts, and a function of the updates: an optimiser and options."""

    steps: int
    reward: float
    settings: Callable


class Scaled(eqx.Module):
    """CartPole with rewards of this size; what is best to do stays the same."""

    reward: float
    actions = ENV.actions

    def reset(self, *, key):
        return ENV.reset(key=key)

    def step(self, state, action, *, key=None):
        outcome = ENV.step(state, action, key=key)
        return outcome._replace(reward=self.reward * outcome.reward)


def _zoo(updates):
    return optax.chain(optax.clip_by_global_norm(10.0), optax.adam(2.3e-3)), {}


def _steady(updates):
    """A step that falls to 0, towards half of the network and half of the target before."""
    falling = optax.adam(optax.linear_schedule(1e-3, 0.0, updates))
    options = {"double": True, "target_every": 64, "target_average": 0.5}
    return optax.chain(optax.clip_by_global_norm(10.0), falling), options


PLAIN = Recipe(50_176, 1.0, _zoo)
STEADY = Recipe(200_704, 0.01, _steady)


def learned(recipe, width, looks=14):
    """A function of a key: the network, and those on the way with the transitions that each was judged by."""
    steps, env = recipe.steps, Scaled(recipe.reward)
    optimiser, options = recipe.settings(steps // 2)

    def one(key):
        first, second, drawing = jax.random.split(key, 3)
        network = MLP((4, width, width, 2), relu, key=first)
        run = dqn(env, network, optimiser, steps=steps, key=second, beta=BETA, snapshots=looks, **options)
        ends = (jnp.arange(looks) + 1) * (steps // looks)
        rows = jax.vmap(lambda key, end: jax.random.randint(key, (128,), 0, end))(
            jax.random.split(drawing, looks), ends
        )
        return run.network, run.snapshots, jax.tree.map(lambda a: a[rows], run.history)

    return one


@partial(jax.jit, static_argnums=1)
def returns(networks, episodes, key):
    """The mean return of each of the networks over so many episodes."""

    def one(network):
        return play(Greedy(network), ENV, episodes=episodes, key=key).returns.mean()

    return jax.lax.map(one, networks, batch_size=64)


def grown(networks, moves):
    """The fastest growth of the update of each network as a share of its fastest rate."""

    @jax.jit
    def kernels(networks, moves):
        return jax.lax.map(lambda given: transition_kernels(given[0], given[1], 2), (networks, moves))

    out = []
    for k, k2 in zip(*map(np.asarray, kernels(networks, moves)), strict=True):
        values = np.linalg.eigvals(k.astype(float) - BETA * k2)  # on the host: no accelerator has it
        out.append(-values.real.min() / np.abs(values).max())
    return np.array(out)


def foretold(score, falls):
    """How often the score of a run that falls is above that of one that does not."""
    yes, no = score[falls], score[~falls]
    if not yes.size or not no.size:
        return np.nan
    return np.mean((yes[:, None] > no[None]) + 0.5 * (yes[:, None] == no[None]))


def say(text):
    print(text, flush=True)


def judged(name, recipe, key, seeds, width, episodes, looks):
    steps, began = recipe.steps, time.perf_counter()
    run = jax.jit(jax.vmap(learned(recipe, width, looks)))
    networks, snapshots, moves = jax.block_until_ready(run(jax.random.split(jax.random.key(key), seeds)))
    trained = time.perf_counter() - began
    end = np.asarray(returns(networks, episodes, jax.random.key(1)))
    good = int((end >= GOOD).sum())
    say(f"{name}: {seeds} seeds of {steps:,} steps in {trained:.0f} s; {good} of {seeds} with {GOOD:g} or more")
    say("  mean greedy returns, sorted: " + " ".join(f"{r:.0f}" for r in np.sort(end)))
    flat = jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), (snapshots, moves))
    course = np.asarray(returns(flat[0], 10, jax.random.key(2))).reshape(seeds, looks)
    growth = grown(*flat).reshape(seeds, looks)
    say("  median return along the run:  " + " ".join(f"{r:.0f}" for r in np.median(course, 0)))
    say("  median growth along the run:  " + " ".join(f"{g:.1e}" for g in np.median(growth, 0)))
    say(f"  share of looks with a growing part: {np.mean(growth > 1e-6):.2f}")
    high = course[:, :-1] >= 200
    falls = course[:, 1:] < course[:, :-1] / 2
    area = foretold(growth[:, :-1][high], falls[high])
    say(f"  collapses: {falls[high].sum()} of {high.sum()} looks at a return of 200 or more; foretold {area:.2f}")
    say(f"  all of it in {time.perf_counter() - began:.0f} s")
    return jax.tree.map(lambda a: a[int(end.argmax())], networks)


def beside_gymnasium(network, episodes):
    if importlib.util.find_spec("gymnasium") is None:
        say("gymnasium is not installed: the policy was not played there.")
        return
    import gymnasium

    ours, theirs = (
        np.asarray(play(Greedy(network), env, episodes=episodes, key=jax.random.key(3)).returns)
        for env in (ENV, gymnasium.make("CartPole-v1"))
    )
    apart, error = ours.mean() - theirs.mean(), np.sqrt((ours.var() + theirs.var()) / episodes)
    inside = abs(apart) <= 3 * error or apart == 0
    say(f"the best policy: {ours.mean():.1f} here, {theirs.mean():.1f} in gymnasium over {episodes} episodes each,")
    say(f"  apart by {apart:.1f} with a standard error of {error:.1f}: {'the same' if inside else 'NOT THE SAME'}")


def main(key, seeds, steps, width, episodes, looks=14):
    """`steps` counts for both recipes, where it is given."""
    say(f"{jax.devices()[0].device_kind}")
    first, second = (recipe._replace(steps=steps or recipe.steps) for recipe in (PLAIN, STEADY))
    settings = key, seeds, width, episodes, looks
    judged("plain deep Q-learning", first, *settings)
    network = judged("double, averaged, falling", second, *settings)
    beside_gymnasium(network, min(episodes, 20))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=4 if jax.default_backend() == "cpu" else 64)
    parser.add_argument("--steps", type=int, help="of the environment, for both; a multiple of 3,584")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--key", type=int, default=0, help="of all seeds")
    parser.add_argument("--tiny", action="store_true", help="a few steps, to see that it runs")
    given = parser.parse_args()
    if given.tiny:
        main(given.key, 2, 1536, 8, 4, 2)
    else:
        main(given.key, given.seeds, given.steps, given.width, 100)
