"""Tokens a second of the Shakespeare transformer in training, ours and PyTorch's, one after the other.

    pip install -e '.[bench]' && python benchmarks/transformer.py

Same sizes, same weights, same text, windows drawn on the device, AdamW; on a GPU bfloat16 with float32 parameters on
both sides, ours through `corollary.nets.train`, theirs compiled, with fused attention and fused optimiser (see
`_peer_transformer.py`). The losses of one batch in single precision are compared before the times are. Best of several
stretches on both sides; compilation is printed beside them. The share of the device's rate is against matrix products
of this precision, measured here; operations are those of forward and backward, causal attention counted by half.
"""

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the peer runs on the same device

import jax
import jax.numpy as jnp
import numpy as np
import optax
from _environment import environment

from corollary.nets import train
from corollary.nets.attention import LanguageModel, next_token_loss, transformer_cost

SIZES = {
    "cpu": dict(length=64, width=128, heads=4, depth=4, batch=16, steps=10, repeats=3),
    "gpu": dict(length=256, width=384, heads=6, depth=6, batch=64, steps=100, repeats=5),
}
VOCABULARY = 65


def peer(model, text, starts, c, dropout, threads):
    """What PyTorch takes: its own environment if torch is not in this one."""
    blocks = model.encoder.stack.blocks
    weights = {"token": model.embedding.weight, "place": model.embedding.places.table}
    weights |= {name: getattr(blocks.attention, name).weight for name in ("query", "key", "value", "output")}
    weights |= {name: layer.weight for name, layer in zip(("up", "down"), blocks.feed_forward.layers, strict=True)}
    given = {name: np.asarray(a, np.float32) for name, a in weights.items()}
    here = importlib.util.find_spec("torch") is not None
    python = sys.executable if here else environment("transformer", ["torch==2.13.0"], ["numpy"])
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder) / "in.npz", Path(folder) / "out.npz"
        np.savez(
            files[0], text=text, starts=starts, vocabulary=VOCABULARY, dropout=dropout, threads=threads, **given, **c
        )
        subprocess.run([python, Path(__file__).parent / "_peer_transformer.py", *files], check=True)
        return dict(np.load(files[1]))


def matrix_rate(dtype, side, repeats=20):
    """Operations a second of products of square matrices, one after the other."""
    a = jax.random.normal(jax.random.key(0), (side, side)).astype(dtype)
    chain = jax.jit(lambda a: jax.lax.fori_loop(0, repeats, lambda _, b: (a @ b) * side**-0.5, a))
    return repeats * 2 * side**3 / timed(lambda: chain(a), 3)[1]


def timed(function, repeats):
    """First call, and the best of the later ones."""
    times = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        jax.block_until_ready(function())
        times.append(time.perf_counter() - began)
    return times[0], min(times[1:])


def main(dropout, threads, bar):
    on = "cpu" if jax.default_backend() == "cpu" else "gpu"
    c, dtype = SIZES[on], jnp.bfloat16 if on == "gpu" else None
    length, width, depth = c["length"], c["width"], c["depth"]
    rng = np.random.default_rng(0)
    text = rng.integers(VOCABULARY, size=1_000_000, dtype=np.int32)
    starts = rng.integers(len(text) - length - 1, size=c["batch"])
    unroll = depth if on == "gpu" else 1
    model = LanguageModel(
        VOCABULARY, length, width, c["heads"], depth, dropout=dropout, unroll=unroll, key=jax.random.key(0)
    )
    theirs = peer(model, text, starts, c, dropout, threads)

    tokens = jnp.asarray(text)

    def windows(starts):
        return tokens[starts[:, None] + jnp.arange(length + 1)]

    def loss(model, starts, key):
        return next_token_loss(model, windows(starts), key=key if dropout else None, dtype=dtype, start=False)

    with jax.default_matmul_precision("highest"):
        ours = float(jax.jit(lambda model: next_token_loss(model, windows(starts), start=False))(model))
    optimiser = optax.adamw(1e-4, b2=0.99, weight_decay=0.1)
    data, steps = (jnp.arange(len(text) - length - 1),), c["steps"]

    def stretch():
        return train(
            model, loss, data, optimiser, steps=steps, batch=c["batch"], key=jax.random.key(1), stochastic=True
        ).losses

    first, seconds = timed(stretch, c["repeats"])
    count, best = steps * c["batch"] * length, float(theirs["seconds"].min())
    cost = transformer_cost(length, width, depth, 4 * width)
    # two operations a multiplication, three such passes: forward, and back to inputs and to weights
    each = 6 * (cost.projections + cost.network + cost.attention // 2 + length * width * VOCABULARY) / length
    precision, side = ("bfloat16", 8192) if on == "gpu" else ("float32", 1024)
    rate = matrix_rate(jnp.dtype(precision), side)
    ratio = best / seconds
    print(
        f"{jax.devices()[0].device_kind}: width {width}, {depth} blocks, {c['heads']} heads, batch {c['batch']}", end=""
    )
    print(f" of {length} tokens, dropout {dropout:g}, {precision}, {steps} steps a stretch")
    print(f"loss of one batch, single precision: ours {ours:.6f}, PyTorch {float(theirs['loss']):.6f}")
    print(f"corollary             {count / seconds:12,.0f} tokens/s  (first stretch, with compilation, {first:.1f} s)")
    print(f"PyTorch {theirs['version']!s:13} {count / best:12,.0f} tokens/s  (first steps {theirs['compiling']:.1f} s)")
    print(f"ratio {ratio:.3f}")
    print(f"{each * count / seconds / 1e12:.2f} TFLOP/s of {rate / 1e12:.1f} measured in matrix products: ", end="")
    print(f"{each * count / seconds / rate:.3f}; PyTorch {each * count / best / rate:.3f}")
    if abs(ours - float(theirs["loss"])) > 1e-3:
        raise SystemExit("The two sides do not compute the same.")
    raise SystemExit(0 if ratio >= bar else f"The ratio is below {bar:g}.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of PyTorch on a processor")
    parser.add_argument("--bar", type=float, default=0.95, help="the least ratio that counts as a success")
    main(**vars(parser.parse_args()))
