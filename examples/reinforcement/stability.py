"""Will temporal-difference learning with this network be stable? The spectrum of the update, before any training.

    python examples/reinforcement/stability.py
    python examples/reinforcement/stability.py --network model.onnx --transitions transitions.npz --beta 0.99

Without arguments the values of a cart with a pole are to be learned: 200 random moves, and three networks that differ
in what they see of the state. A file of transitions holds `observation`, `action`, `reward`, `next_observation` and
`terminated`, one transition per row; the network gives one value per action for an observation.
"""

import argparse

import jax
import jax.numpy as jnp
import numpy as np

from corollary import Network
from corollary.nets import MLP, relu
from corollary.reinforcement import CartPole, History, rollout, td_stability


def at_random(observation, *, key):
    return jax.random.randint(key, (), 0, 2)


def own(moves):
    """Three kinds of networks, with the moves as each of them sees the states."""
    played = rollout(CartPole(), at_random, moves, key=jax.random.key(0))
    dense = MLP((4, 256, 256, 2), relu, key=jax.random.key(1))

    def seen(f):
        return played._replace(observation=f(played.observation), next_observation=f(played.next_observation))

    linear = Network(lambda w, x: w @ x, 0.1 * jax.random.normal(jax.random.key(2), (2, 4)))
    yield "dense, 4-256-256-2", dense, played
    yield "the same, states of unit size", dense, seen(lambda x: x / jnp.std(played.observation, 0))
    yield "linear in the state", linear, played


def read(path, transitions):
    """A network in an ONNX file, and the arrays of an `.npz` file."""
    with np.load(transitions) as a:
        n = len(a["action"])
        ended = a["terminated"] if "terminated" in a else np.zeros(n, bool)
        given = History(
            jnp.asarray(a["observation"], jnp.float32),
            a["action"],
            a["reward"],
            jnp.asarray(a["next_observation"], jnp.float32),
            ended.astype(bool),
            np.zeros(n, bool),
        )
    yield path, Network.from_onnx(path, given.observation[0]), given


def main(path, transitions, beta, moves):
    rows = own(moves) if path is None else read(path, transitions)
    for name, network, given in rows:
        found = td_stability(network, given, beta)
        held = td_stability(network, given, beta, frozen=True)
        verdict = "stable" if found.stable else "unstable"
        print(f"{name}: {verdict} at the discount {beta:g}")
        print(f"  fastest growth {float(found.abscissa):+.3g} per unit of step, largest stable step", end=" ")
        print(f"{float(found.largest_step):.3g}, first unstable discount {float(found.critical_beta):.4g}")
        print(f"  with a frozen target the error is multiplied by {float(held.radius):.3g} per round")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", help="an ONNX file")
    parser.add_argument("--transitions", help="an .npz file")
    parser.add_argument("--beta", type=float, default=0.99, help="the discount")
    parser.add_argument("--moves", type=int, default=200)
    options = parser.parse_args()
    if (options.network is None) != (options.transitions is None):
        parser.error("--network and --transitions belong together")
    with jax.enable_x64(True):  # small growth rates are lost in the rounding of float32
        main(options.network, options.transitions, options.beta, options.moves)
