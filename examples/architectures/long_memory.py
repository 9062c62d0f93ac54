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
from corollary.nets import FullyConnected, fit
from corollary.nets.initialisations import uniform_fan_in
from corollary.nets.recurrent import GRU, LSTM, ElmanCell, LRULayer, memory_biases, shown, unroll

ALL = ("Elman", "GRU", "LSTM", "LRU")
SIZES = {
    "quick": dict(length=8, units=8, batch=8, steps=4, rate=2e-2, examples=64, networks=("LSTM",)),
    "cpu": dict(length=50, units=48, batch=32, steps=2000, rate=1e-2, examples=64_000, networks=ALL),
    "gpu": dict(length=200, units=64, batch=128, steps=3000, rate=5e-3, examples=150_000, networks=ALL),
}
SYMBOLS, REMEMBERED = 4, 3


def network(kind, inputs, outputs, units, length, key):
    """A recurrent part, from (T, inputs) to (T, units), and a linear map of each step to the outputs."""
    first, second, bias_key, head_key = jax.random.split(key, 4)
    lasting = memory_biases(bias_key, units, length)
    # what is left after a pause is between e^-4 and e^-0.2, and some modes hardly turn meanwhile: they add up
    slow = dict(radii=(1 - 4 / length, 1 - 0.2 / length), phase=math.pi / 10)
    parts = {
        "Elman": lambda: ElmanCell(inputs, units, key=first, recurrent_initialisation=uniform_fan_in),
        "GRU": lambda: GRU(inputs, units, key=first, keep_bias=lasting, reset="after"),
        "LSTM": lambda: LSTM(inputs, units, key=first, keep_bias=lasting, write_bias=-lasting),
        "LRU": lambda: (
            LRULayer(inputs, units, units, jax.nn.gelu, key=first, **slow),
            LRULayer(units, units, units, jax.nn.gelu, key=second, **slow),
        ),
    }
    return parts[kind](), FullyConnected(units, outputs, key=head_key)


def answers(model, xs):
    """What the network says at every step of a batch of sequences."""
    part, head = model
    run = (lambda x: part[1](part[0](x))) if isinstance(part, tuple) else lambda x: shown(unroll(part, x))
    return jax.vmap(lambda x: jax.vmap(head)(run(x)))(xs)


def adding(model, xs, ys):
    return jnp.mean((answers(model, xs)[:, -1, 0] - ys) ** 2)


def copying(model, xs, ys):
    """The steps to be repeated count as much as all others together, which are easy."""
    each = optax.softmax_cross_entropy_with_integer_labels(answers(model, _one_hot(xs)), ys)
    return each[:, -REMEMBERED:].mean() + each[:, :-REMEMBERED].mean()


def repeated(model, xs, ys):
    return jnp.mean(answers(model, _one_hot(xs))[:, -REMEMBERED:].argmax(-1) == ys[:, -REMEMBERED:])


def _one_hot(tokens):
    return jax.nn.one_hot(tokens, SYMBOLS + 2)


def main(size, seed, kinds, steps):
    size = size or ("cpu" if jax.default_backend() == "cpu" else "gpu")
    c = argparse.Namespace(**SIZES[size])
    steps, key = steps or c.steps, jax.random.key(seed)
    copies = lambda key, n: copy_problem(key, n, c.length, SYMBOLS, REMEMBERED)  # noqa: E731
    sums = lambda key, n: adding_problem(key, n, c.length)  # noqa: E731
    problems = {"adding": (sums, adding, adding, 2, 1), "copy": (copies, copying, repeated, *[SYMBOLS + 2] * 2)}
    schedule = optax.warmup_cosine_decay_schedule(0.0, c.rate, steps // 20 + 1, steps + 1)
    optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(schedule))
    options = dict(steps=steps, batch=c.batch, key=key, every=steps, progress=False)
    print(f"length {c.length}, {c.units} units, {steps} steps of {c.batch} sequences")
    for name, (draw, loss, figure, inputs, outputs) in problems.items():
        data, test = draw(key, c.examples), draw(jax.random.fold_in(key, 1), min(c.examples, 1000))
        for kind in kinds or c.networks:
            began = time.perf_counter()
            model = network(kind, inputs, outputs, c.units, c.length, key)
            trained = fit(model, loss, tuple(data), optimiser, **options)
            score = float(eqx.filter_jit(figure)(trained.model, *test))
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
