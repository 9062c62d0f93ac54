"""Two problems whose answer lies far back: gated and linear recurrent networks solve them, an Elman network does not.

    python examples/architectures/long_memory.py             # length 200 on a GPU, 50 on two CPU cores
    python examples/architectures/long_memory.py --quick     # seconds, too short to learn anything

Adding: the sum of two marked numbers among many (mean squared error; a constant has 1/6). Copy: symbols to be repeated
after a long pause (share of the symbols repeated; guessing has 1 in 4). All networks have the same units, optimiser and
steps; the Elman network begins as most libraries begin it, with recurrent weights that contract.
"""

import argparse
import math
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from corollary.data import adding_problem, copy_problem
from corollary.nets import FullyConnected, empirical_risk, fit
from corollary.nets.initialisations import uniform_fan_in
from corollary.nets.recurrent import GRU, LSTM, ElmanCell, LRULayer, Recurrent, memory_biases

ALL = ("Elman", "GRU", "LSTM", "LRU")
SIZES = {
    "quick": dict(length=8, units=8, batch=8, steps=4, rate=2e-2, examples=64, networks=("LSTM",)),
    "cpu": dict(length=50, units=48, batch=32, steps=2000, rate=1e-2, examples=64_000, networks=ALL),
    "gpu": dict(length=200, units=64, batch=128, steps=3000, rate=5e-3, examples=150_000, networks=ALL),
}
SYMBOLS, REMEMBERED = 4, 3


class Layers(eqx.Module):
    """Maps of sequences one after the other, and a map of each step at the end; symbols come as whole numbers."""

    layers: tuple
    head: FullyConnected | None = None

    def __call__(self, xs):
        xs = jax.nn.one_hot(xs, SYMBOLS + 2) if xs.ndim == 1 else xs
        for layer in self.layers:
            xs = layer(xs)
        return xs if self.head is None else jax.vmap(self.head)(xs)


def network(kind, inputs, outputs, units, length, key):
    """From (T, inputs) to (T, outputs): a recurrent part, and a linear map of what it shows at each step."""
    first, second, bias_key, head_key = jax.random.split(key, 4)
    lasting = memory_biases(units, length, key=bias_key)
    # what is left after a pause is between e^-4 and e^-0.2, and some modes hardly turn meanwhile: they add up
    slow = dict(radii=(1 - 4 / length, 1 - 0.2 / length), phase=math.pi / 10)
    parts = {
        "Elman": lambda: ElmanCell(inputs, units, key=first, recurrent_initialisation=uniform_fan_in),
        "GRU": lambda: GRU(inputs, units, key=first, keep_bias=lasting, reset="after"),
        "LSTM": lambda: LSTM(inputs, units, key=first, keep_bias=lasting, write_bias=-lasting),
    }
    head = FullyConnected(units, outputs, key=head_key)
    if kind != "LRU":
        return Layers((Recurrent(parts[kind](), head),))
    lower = LRULayer(inputs, units, units, jax.nn.gelu, key=first, **slow)
    return Layers((lower, LRULayer(units, units, units, jax.nn.gelu, key=second, **slow)), head)


def adding(output, target):
    return (output[-1, 0] - target) ** 2


def copying(output, target):
    """The steps to be repeated count as much as all others together, which are easy."""
    each = optax.softmax_cross_entropy_with_integer_labels(output, target)
    return each[-REMEMBERED:].mean() + each[:-REMEMBERED].mean()


def repeated(output, target):
    return jnp.mean(output[-REMEMBERED:].argmax(-1) == target[-REMEMBERED:])


def main(size, seed, kinds, steps):
    size = size or ("cpu" if jax.default_backend() == "cpu" else "gpu")
    c = argparse.Namespace(**SIZES[size])
    steps, key = steps or c.steps, jax.random.key(seed)
    copies = lambda key, n: copy_problem(n, c.length, SYMBOLS, REMEMBERED, key=key)  # noqa: E731
    sums = lambda key, n: adding_problem(n, c.length, key=key)  # noqa: E731
    problems = {"adding": (sums, adding, adding, 2, 1), "copy": (copies, copying, repeated, *[SYMBOLS + 2] * 2)}
    schedule = optax.warmup_cosine_decay_schedule(0.0, c.rate, steps // 20 + 1, steps + 1)
    optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(schedule))
    options = dict(steps=steps, batch_size=c.batch, key=key, every=steps, progress=False)
    print(f"length {c.length}, {c.units} units, {steps} steps of {c.batch} sequences")
    for name, (draw, loss, figure, inputs, outputs) in problems.items():
        data, test = tuple(draw(key, c.examples)), tuple(draw(jax.random.fold_in(key, 1), min(c.examples, 1000)))
        for kind in kinds or c.networks:
            began = time.perf_counter()
            model = network(kind, inputs, outputs, c.units, c.length, key)
            trained = fit(model, loss, data, optimiser, **options)
            score = float(eqx.filter_jit(empirical_risk)(trained.network, figure, test))
            seconds = time.perf_counter() - began
            print(f"{name:8}{kind:6} {'error' if name == 'adding' else 'share repeated'} {score:.4f}, {seconds:.0f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_const", const="quick", dest="size")
    parser.add_argument("--size", choices=SIZES, help="by the device unless given")
    parser.add_argument("--networks", nargs="+", choices=ALL)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    main(args.size, args.seed, args.networks, args.steps)
