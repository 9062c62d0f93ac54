"""Deep Q-learning of CartPole-v1 beside Stable-Baselines3: the same network, steps, replay and hyperparameters.

    python benchmarks/reinforcement.py
    python benchmarks/reinforcement.py --steps 50176 --seeds 4
    python benchmarks/reinforcement.py --alone      # without the peer

The hyperparameters are those of RL Zoo for CartPole-v1: 256-256 units, Adam with 2.3e-3, 128 steps on 64 transitions
after every 256 moves. Ours is one compiled program, timed with its compilation and without. Both policies are judged by
the mean return of 100 greedy episodes: one run of DQN is one draw from a wide law, so that no return is a bar. The bar,
on two cores: one seed in at most half of the peer's time. The peer lives in an environment of its own under
benchmarks/.peers, installed when first needed.
"""

import argparse
import json
import subprocess
import time
from pathlib import Path

import jax
import optax
from _environment import environment

from corollary.nets import MLP, relu
from corollary.reinforcement import CartPole, Greedy, dqn, play

ENV = CartPole()
OPTIMISER = optax.chain(optax.clip_by_global_norm(10.0), optax.adam(2.3e-3))


def learned(key, steps):
    first, second = jax.random.split(key)
    return dqn(ENV, MLP((4, 256, 256, 2), relu, key=first), OPTIMISER, steps=steps, key=second).network


def ours(steps, seeds):
    """Seconds with and without compilation, and the mean returns."""
    seconds, returns = [], []
    for seed in range(seeds + 1):
        began = time.perf_counter()
        network = jax.block_until_ready(learned(jax.random.key(seed), steps))
        seconds.append(time.perf_counter() - began)
        returns.append(float(play(Greedy(network), ENV, episodes=100, key=jax.random.key(100 + seed)).returns.mean()))
    return seconds[0], min(seconds[1:]), returns


def peer(steps):
    python = environment("stable-baselines3", ["stable-baselines3==2.9.0"])
    script = Path(__file__).parent / "_peer_dqn.py"
    found = subprocess.run([python, script, str(steps)], check=True, capture_output=True, text=True)
    return json.loads(found.stdout.splitlines()[-1])


def main(steps, seeds, alone):
    first, later, returns = ours(steps, seeds)
    print(f"ours: {steps:,} steps in {later:.1f} s, {first:.1f} s with compilation", end="; ")
    print("mean returns " + ", ".join(f"{r:.0f}" for r in returns))
    if not alone:
        found = peer(steps)
        print(f"Stable-Baselines3: {found['seconds']:.1f} s; mean return {found['mean_return']:.0f}")
        print(f"ours is {found['seconds'] / first:.1f} times as fast with compilation (bar: 2)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=50_176)
    parser.add_argument("--seeds", type=int, default=1, help="runs after the first one")
    parser.add_argument("--alone", action="store_true", help="without the peer")
    options = parser.parse_args()
    main(options.steps, options.seeds, options.alone)
