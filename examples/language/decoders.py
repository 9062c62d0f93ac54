"""The ten decoders of the text's Figure 15.1 on a transformer of our own: how surprising is what each of them writes?

    python examples/language/decoders.py             # three minutes on a GPU
    python examples/language/decoders.py --quick     # seconds, and it shows

A character model is trained on Shakespeare and continues pieces of text that it has not seen. Printed is the
perplexity of the continuations under the model itself, with the text's own continuation as the human one. Of a model
that knows the law of the text, pure sampling would have the perplexity of the human: their ratio is its calibration.
Numbers of tokens that are kept are for 65 characters, where the figure's are for 50,000 tokens.
"""

import argparse
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.data import shakespeare
from corollary.language import (
    beam_search,
    greedy_search,
    sample_sequence,
    sequence_log_probability,
    stochastic_beam,
)
from corollary.nets import fit
from corollary.nets.attention import LanguageModel, next_token_loss
from corollary.network import BatchLoss

SIZES = {
    "quick": dict(length=24, width=16, heads=2, depth=1, batch=8, steps=10, rate=3e-3, dtype=None, prompts=2, beam=2),
    "cpu": dict(
        length=64, width=128, heads=4, depth=4, batch=16, steps=1800, rate=2e-3, dtype=None, prompts=16, beam=16
    ),
    "gpu": dict(
        length=256,
        width=384,
        heads=6,
        depth=6,
        batch=64,
        steps=3000,
        rate=1e-3,
        dtype=jnp.bfloat16,
        prompts=64,
        beam=16,
    ),
}


def trained(c, training, letters, key):
    model_key, fit_key = jax.random.split(key)
    model = LanguageModel(letters, c.length, c.width, c.heads, c.depth, dropout=0.2, unroll=c.depth, key=model_key)

    @BatchLoss
    def loss(model, starts, *, key):
        windows = training[starts[:, None] + jnp.arange(c.length + 1)]
        return next_token_loss(model, windows, key=key, dtype=c.dtype, start=False)

    schedule = optax.warmup_cosine_decay_schedule(0.0, c.rate, c.steps // 20, c.steps, 0.01 * c.rate)
    optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule, b2=0.99, weight_decay=0.1))
    starts = jnp.arange(len(training) - c.length - 1)
    return fit(
        model, loss, starts, optimiser, steps=c.steps, batch_size=c.batch, key=fit_key, every=c.steps, progress=False
    ).network


def main(size, seed):
    c = argparse.Namespace(**SIZES[size or ("cpu" if jax.default_backend() == "cpu" else "gpu")])
    text = shakespeare()
    letters = sorted(set(text))
    tokens = np.searchsorted(letters, list(text)).astype(np.int32)
    training, held_out = tokens[: len(text) * 9 // 10], tokens[len(text) * 9 // 10 :]
    train_key, place_key, draw_key = jax.random.split(jax.random.key(seed), 3)
    began = time.perf_counter()
    model = trained(c, jnp.asarray(training), len(letters), train_key)
    print(f"trained in {time.perf_counter() - began:.0f} s", flush=True)

    half = c.length // 2
    places = jax.random.randint(place_key, (c.prompts,), 0, len(held_out) - c.length)
    pieces = jnp.asarray(held_out)[places[:, None] + jnp.arange(c.length)]
    prompts, human = pieces[:, :half], pieces[:, half:]
    keys = jax.random.split(draw_key, c.prompts)
    draw = partial(sample_sequence, model, length=half)
    decoders = {
        "greedy": lambda p, k: greedy_search(model, p, half).log_probability,
        f"beam, b = {c.beam}": lambda p, k: beam_search(model, p, half, c.beam).log_probability[0],
        f"stochastic beam, b = {c.beam}": lambda p, k: jnp.mean(
            stochastic_beam(model, p, half, c.beam, key=k).log_probability
        ),
        "pure sampling": lambda p, k: draw(p, key=k).log_probability,
        "sampling, t = 0.9": lambda p, k: draw(p, key=k, temperature=0.9).log_probability,
        "top-k = 5": lambda p, k: draw(p, key=k, top_k=5).log_probability,
        "top-k = 20": lambda p, k: draw(p, key=k, top_k=20).log_probability,
        "top-k = 5, t = 0.7": lambda p, k: draw(p, key=k, top_k=5, temperature=0.7).log_probability,
        "nucleus, p = 0.95": lambda p, k: draw(p, key=k, top_p=0.95).log_probability,
    }

    def show(name, values):
        nats = -np.asarray(values) / half
        mean, error = nats.mean(), nats.std(ddof=1) / len(nats) ** 0.5
        low, high = np.exp([mean - 2 * error, mean + 2 * error])
        print(f"{name:24s} {np.exp(mean):7.3f}   ({low:.3f} to {high:.3f})", flush=True)
        return mean

    print("decoder                  perplexity under the model, and two standard errors")
    of_human = show("human", jax.jit(jax.vmap(partial(sequence_log_probability, model)))(prompts, human))
    # one prompt after the other where many hypotheses are kept: their caches would not fit side by side
    means = {}
    for name, decode in decoders.items():
        run = jax.jit(lambda p, k, decode=decode: jax.lax.map(lambda a: decode(*a), (p, k), batch_size=16))
        means[name] = show(name, run(prompts, keys))
    print(f"calibration: pure sampling has {np.exp(means['pure sampling'] - of_human):.3f} times the human perplexity")
    return means


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_const", const="quick", dest="size")
    parser.add_argument("--size", choices=SIZES, help="by the device unless given")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    main(args.size, args.seed)
