"""A character model of Shakespeare: a decoder-only transformer that learns to write from 1 MB of text.

    python examples/architectures/shakespeare.py             # two minutes on a GPU, four on two CPU cores
    python examples/architectures/shakespeare.py --quick     # seconds, and it shows

The first 90 % of the text are for training, the rest for validation: every character of it is predicted once, from
those before it in its window. What the GPU's configuration computes in bfloat16 has its parameters in float32.
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.data import shakespeare
from corollary.language import sample_sequence
from corollary.nets import fit
from corollary.nets.attention import LanguageModel, in_dtype, next_token_loss, token_cross_entropy
from corollary.network import BatchLoss

SIZES = {
    "quick": dict(length=32, width=32, heads=2, depth=2, batch=8, steps=60, rate=3e-3, dropout=0.0, dtype=None),
    "cpu": dict(length=64, width=128, heads=4, depth=4, batch=16, steps=1800, rate=2e-3, dropout=0.0, dtype=None),
    "gpu": dict(
        length=256, width=384, heads=6, depth=6, batch=64, steps=5000, rate=1e-3, dropout=0.2, dtype=jnp.bfloat16
    ),
}


def main(size, seed):
    size = size or ("cpu" if jax.default_backend() == "cpu" else "gpu")
    c = argparse.Namespace(**SIZES[size])
    text = shakespeare()
    letters = sorted(set(text))
    tokens = np.searchsorted(letters, list(text)).astype(np.int32)
    training, validation = jnp.asarray(tokens[: len(text) * 9 // 10]), jnp.asarray(tokens[len(text) * 9 // 10 :])

    model_key, fit_key, sample_key = jax.random.split(jax.random.key(seed), 3)
    model = LanguageModel(
        len(letters), c.length, c.width, c.heads, c.depth, dropout=c.dropout, unroll=c.depth, key=model_key
    )

    @BatchLoss
    def loss(model, starts, *, key):
        windows = training[starts[:, None] + jnp.arange(c.length + 1)]
        return next_token_loss(model, windows, key=key if c.dropout else None, dtype=c.dtype, start=False)

    def held_out(stride, most=None):
        """Nats per character of the validation text by windows this far apart: the last `stride` of each count."""
        starts = np.arange(0, len(validation) - c.length - 1, stride)[:most]
        windows = validation[starts[:, None] + np.arange(c.length + 1)]

        def nats(model):
            model = in_dtype(model, c.dtype or jnp.float32)
            each = jax.lax.map(lambda w: token_cross_entropy(model(w[:-1]), w[1:]), windows, batch_size=64)
            return each[:, -stride:].mean()

        return jax.jit(nats)

    schedule = optax.warmup_cosine_decay_schedule(0.0, c.rate, c.steps // 20, c.steps, 0.01 * c.rate)
    decayed = lambda params: jax.tree.map(lambda a: a.ndim > 2, params)  # noqa: E731 - the matrices of the blocks
    optimiser = optax.chain(
        optax.clip_by_global_norm(1.0), optax.adamw(schedule, b2=0.99, weight_decay=0.1, mask=decayed)
    )
    every = max(c.steps // 16, 1)
    began = time.perf_counter()
    trained = fit(
        model,
        loss,
        jnp.arange(len(training) - c.length - 1),
        optimiser,
        steps=c.steps,
        batch_size=c.batch,
        key=fit_key,
        measure=held_out(c.length, most=64 if size != "gpu" else None),
        every=every,
        patience=c.steps // every,  # as many as there are looks: the best of them is kept, and nothing stops early
    )
    seconds = time.perf_counter() - began
    rate = c.steps * c.batch * c.length / seconds
    print(f"{c.steps} steps in {seconds:.0f} s, {rate:,.0f} characters a second with compilation and validation")
    nats, half = (float(held_out(c.length // n)(trained.network)) for n in (1, 2))
    print(f"validation loss {nats:.4f} nats per character ({half:.4f} with half a window or more before each)")

    prompt = jnp.asarray(np.searchsorted(letters, ["\n"]))
    written = sample_sequence(trained.network, prompt, c.length, key=sample_key, temperature=0.8).tokens
    print("".join(letters[i] for i in np.asarray(written)))
    return nats


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_const", const="quick", dest="size")
    parser.add_argument("--size", choices=SIZES, help="by the device unless given")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    main(args.size, args.seed)
