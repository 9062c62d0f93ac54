"""Linear recurrences by the parallel scan against the loop over time, and LSTM and GRU against PyTorch.

    pip install -e . && python benchmarks/recurrences.py --lengths 256 1024 4096

The scan and the loop compute the same states of `LRU` and `MinGRU`, forwards, and forwards and backwards; float32, on
whatever device there is. PyTorch, where it is installed, runs on the CPU, in the same process and with the same
sizes: forwards, and forwards and backwards to all parameters. Best of several runs, compilation not counted.
"""

import argparse
import time

import equinox as eqx
import jax
import jax.numpy as jnp

from corollary.nets.recurrent import GRU, LRU, LSTM, MinGRU, shown, unroll, unroll_linear


def seconds(call, repeats):
    call()
    best = float("inf")
    for _ in range(repeats):
        began = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - began)
    return best


def ours(run, cell, xs, repeats):
    """Seconds forwards, and with the gradient by all parameters."""
    params, static = eqx.partition(cell, eqx.is_inexact_array)

    def total(params):
        states = jax.vmap(lambda x: shown(run(eqx.combine(params, static), x)))(xs)
        return jnp.sum(jnp.abs(states) ** 2)

    forwards, both = jax.jit(total), jax.jit(jax.value_and_grad(total))
    return [seconds(lambda f=f: jax.block_until_ready(f(params)), repeats) for f in (forwards, both)]


def theirs(layer, xs, repeats):
    import torch

    def forwards():
        with torch.no_grad():
            return (layer(xs)[0] ** 2).sum()

    def both():
        layer.zero_grad()
        (layer(xs)[0] ** 2).sum().backward()

    return [seconds(f, repeats) for f in (forwards, both)]


def linear(lengths, batch, units, repeats):
    print(f"on {jax.devices()[0].device_kind}: batch {batch}, {units} units; milliseconds")
    for name, make in (("LRU", LRU), ("MinGRU", MinGRU)):
        cell = make(units, units, key=jax.random.key(0))
        for length in lengths:
            xs = jax.random.normal(jax.random.key(1), (batch, length, units))
            loop, scan = (ours(run, cell, xs, repeats) for run in (unroll, unroll_linear))
            for what, a, b in zip(("forwards", "with gradient"), loop, scan, strict=True):
                print(
                    f"{name:7}{length:6}  {what:14} loop {1e3 * a:9.2f}, scan {1e3 * b:9.2f}, {a / b:6.1f} times faster"
                )


def gated(length, batch, units, repeats):
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed: nothing to compare LSTM and GRU with.")
        return
    print(f"on the CPU: length {length}, batch {batch}, {units} units; milliseconds")
    with jax.default_device(jax.devices("cpu")[0]):
        xs = jax.random.normal(jax.random.key(1), (batch, length, units))
        peers = {"LSTM": torch.nn.LSTM, "GRU": torch.nn.GRU}
        cells = {
            "LSTM": LSTM(units, units, key=jax.random.key(0)),
            "GRU": GRU(units, units, key=jax.random.key(0), reset="after"),
        }
        for name, cell in cells.items():
            mine = ours(unroll, cell, xs, repeats)
            peer = theirs(peers[name](units, units, batch_first=True), torch.tensor(jax.device_get(xs)), repeats)
            for what, a, b in zip(("forwards", "with gradient"), mine, peer, strict=True):
                print(f"{name:7}{what:14} ours {1e3 * a:8.2f}, PyTorch {1e3 * b:8.2f}, ratio {b / a:5.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=[256, 1024, 4096])
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--units", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    linear(args.lengths, args.batch, args.units, args.repeats)
    gated(100, args.batch, args.units, args.repeats)
