"""A masked language model of Shakespeare: BERT learns characters by filling in those that were taken out.

    python examples/architectures/masked_language_model.py
    python examples/architectures/masked_language_model.py --quick     # seconds, and it shows

15 % of the characters are chosen, of which 80 % become [MASK], 10 % a random one, and 10 % stay. A model without
context cannot do better than the entropy of the single characters, the unigram entropy.
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.data import shakespeare
from corollary.nets import fit
from corollary.nets.attention import BERT, PretrainingBERT, in_dtype, mask_tokens, masked_loss
from corollary.network import BatchLoss

SIZES = {
    "quick": dict(length=32, width=32, heads=2, depth=1, batch=8, steps=60, rate=3e-3),
    "cpu": dict(length=64, width=128, heads=4, depth=3, batch=32, steps=1500, rate=1e-3),
    "gpu": dict(length=128, width=256, heads=8, depth=6, batch=128, steps=6000, rate=1e-3),
}


def main(size, seed):
    size = size or ("cpu" if jax.default_backend() == "cpu" else "gpu")
    c, dtype = argparse.Namespace(**SIZES[size]), jnp.bfloat16 if size == "gpu" else jnp.float32
    text = shakespeare()
    letters = sorted(set(text))
    tokens = np.searchsorted(letters, list(text)).astype(np.int32)
    training, validation = jnp.asarray(tokens[: len(text) * 9 // 10]), jnp.asarray(tokens[len(text) * 9 // 10 :])
    share = np.bincount(validation, minlength=len(letters)) / len(validation)
    unigram = float(-np.sum(share[share > 0] * np.log(share[share > 0])))

    keys = jax.random.split(jax.random.key(seed), 4)
    bert = BERT(len(letters), c.length, c.width, c.heads, c.depth, order="pre", key=keys[0])
    model = PretrainingBERT(bert, key=keys[1])

    def loss(model, starts, key, text=training):
        windows = text[starts[:, None] + jnp.arange(c.length)]
        masked = mask_tokens(windows, len(letters), bert.mask, key=key)
        words = jax.vmap(lambda tokens: model.words(model.encoder(tokens)))
        return masked_loss(words(masked.inputs), masked.targets, masked.chosen)

    @BatchLoss
    def half(model, starts, *, key):
        return loss(in_dtype(model, dtype), starts, key)

    held_out = jnp.arange(0, len(validation) - c.length, c.length)

    def nats(model):
        return loss(model, held_out[:256], keys[3], validation)

    schedule = optax.warmup_cosine_decay_schedule(0.0, c.rate, c.steps // 10, c.steps)
    optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule, weight_decay=0.01))
    began = time.perf_counter()
    trained = fit(
        model,
        half,
        jnp.arange(len(training) - c.length),
        optimiser,
        steps=c.steps,
        batch_size=c.batch,
        key=keys[2],
        measure=nats,
        every=max(c.steps // 10, 1),
    )
    print(f"{c.steps} steps in {time.perf_counter() - began:.0f} s")
    print("validation loss on the way: " + " ".join(f"{a:.3f}" for a in trained.record))
    print(f"at the end {trained.record[-1]:.3f} nats per hidden character; unigram entropy {unigram:.3f}")

    shown = validation[: c.length]
    masked = mask_tokens(shown, len(letters), bert.mask, key=keys[3])
    guess = jnp.argmax(trained.network.words(trained.network.encoder(masked.inputs)), -1)
    filled = jnp.where(masked.chosen, guess, shown)
    hidden = "".join("_" if m else letters[t] for t, m in zip(shown, masked.chosen, strict=True))
    print(repr(hidden), repr("".join(letters[t] for t in filled)), sep="\n")
    return float(trained.record[-1]), unigram


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_const", const="quick", dest="size")
    parser.add_argument("--size", choices=SIZES, help="by the device unless given")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    main(args.size, args.seed)
