"""Tokens a second of the Shakespeare transformer in training, ours and PyTorch's, one after the other.

    pip install -e '.[bench]' && python benchmarks/transformer.py

Same sizes, same weights, same text, windows drawn on the device, AdamW; on a GPU bfloat16 with float32 parameters on
both sides, ours through `corollary.nets.train`, theirs compiled, with fused attention and fused optimiser (see
`_peer_transformer.py`). The losses of one batch in single precision are compared before the times are. Best of several
stretches on both sides; compilation is printed beside them. The share of the device's rate is against matrix products
of this precision, measured here; operations are those of forward and backward, causal attention counted by half.
"""

import argparse
import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the peer runs on the same device

import jax
import jax.numpy as jnp
import numpy as np
import optax
from _beside_pytorch import compare, peer, timed

from corollary.nets import train
from corollary.nets.attention import LanguageModel, next_token_loss, transformer_cost
from corollary.network import BatchLoss

SIZES = {
    "cpu": dict(length=64, width=128, heads=4, depth=4, batch=16, steps=10, repeats=3),
    "gpu": dict(length=256, width=384, heads=6, depth=6, batch=64, steps=100, repeats=5),
}
VOCABULARY = 65


def weights(model):
    """Those that PyTorch gets, under the names that its side knows."""
    blocks = model.encoder.stack.blocks
    found = {"token": model.embedding.weight, "place": model.embedding.places.table}
    found |= {name: getattr(blocks.attention, name).weight for name in ("query", "key", "value", "output")}
    found |= {name: layer.weight for name, layer in zip(("up", "down"), blocks.feed_forward.layers, strict=True)}
    return {name: np.asarray(a, np.float32) for name, a in found.items()}


def main(dropout, threads, bar):
    on = "cpu" if jax.default_backend() == "cpu" else "gpu"
    c, dtype = SIZES[on], jnp.bfloat16 if on == "gpu" else None
    length, width, depth = c["length"], c["width"], c["depth"]
    rng = np.random.default_rng(0)
    text = rng.integers(VOCABULARY, size=1_000_000, dtype=np.int32)
    starts = rng.integers(len(text) - length - 1, size=c["batch"])
    model = LanguageModel(
        VOCABULARY, length, width, c["heads"], depth, dropout=dropout, unroll=depth, key=jax.random.key(0)
    )
    extra = dict(text=text, starts=starts, vocabulary=VOCABULARY, dropout=dropout, threads=threads)
    theirs = peer("_peer_transformer.py", **extra, **weights(model), **c)

    tokens = jnp.asarray(text)

    def windows(starts):
        return tokens[starts[:, None] + jnp.arange(length + 1)]

    @BatchLoss
    def loss(model, starts, *, key):
        return next_token_loss(model, windows(starts), key=key if dropout else None, dtype=dtype, start=False)

    with jax.default_matmul_precision("highest"):
        ours = float(jax.jit(lambda model: next_token_loss(model, windows(starts), start=False))(model))
    optimiser = optax.adamw(1e-4, b2=0.99, weight_decay=0.1)
    data, steps = jnp.arange(len(text) - length - 1), c["steps"]

    def stretch():
        return train(model, loss, data, optimiser, steps=steps, batch_size=c["batch"], key=jax.random.key(1)).losses

    first, seconds = timed(stretch, c["repeats"])
    cost = transformer_cost(length, width, depth, 4 * width)
    # two operations a multiplication, three such passes: forward, and back to inputs and to weights
    each = 6 * (cost.projections + cost.network + cost.attention // 2 + length * width * VOCABULARY) / length
    title = f"width {width}, {depth} blocks, {c['heads']} heads, batch {c['batch']} of {length} tokens, "
    title += f"dropout {dropout:g}, {steps} steps a stretch"
    compare(title, "tokens", steps * c["batch"] * length, each, (ours, first, seconds), theirs, bar)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of PyTorch on a CPU")
    parser.add_argument("--bar", type=float, default=0.95, help="the least ratio that counts as a success")
    main(**vars(parser.parse_args()))
