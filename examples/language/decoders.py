"""The ten decoders of the text's Figure 15.1 on a transformer of our own: how surprising is what each of them writes?

    python examples/language/decoders.py             # three minutes on a GPU
    python examples/language/decoders.py --quick     # seconds, and it shows

A character model is trained on Shakespeare and continues pieces of text that it has not seen. Printed is the
perplexity of the continuations under the model itself, with the text's own continuation as the human one. Of a model
that knows the law of the text, pure sampling would have the perplexity of the human: their ratio is its calibration.
Shakespeare wrote a megabyte, which a transformer soon knows by heart: a twentieth of it, kept apart, says when training
has to end, and by which temperature all logits are divided.
Numbers of tokens that are kept are for 65 characters, where the figure's are for 50,000 tokens.
"""

import argparse
import time
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.data import shakespeare
from corollary.generalization import best_temperature
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
    "quick": dict(
        length=24, width=16, heads=2, depth=1, dropout=0.2, batch=8, steps=10, every=5, rate=3e-3, dtype=None,
        checked=4, prompts=2, beam=2,
    ),
    "cpu": dict(
        length=64, width=128, heads=4, depth=4, dropout=0.2, batch=16, steps=1800, every=300, rate=2e-3, dtype=None,
        checked=64, prompts=16, beam=16,
    ),
    "gpu": dict(
        length=256, width=384, heads=6, depth=6, dropout=0.4, batch=64, steps=3000, every=250, rate=1e-3,
        dtype=jnp.bfloat16, checked=200, prompts=64, beam=16,
    ),
}  # fmt: skip
PATIENCE = 2  # looks at the part that was kept apart, without a better one, after which training ends


def trained(c, training, checking, letters, key):
    """The model of the least loss on `checking` (pieces of text), with the temperature that suits these."""
    model_key, fit_key = jax.random.split(key)
    model = LanguageModel(
        letters, c.length, c.width, c.heads, c.depth, dropout=c.dropout, unroll=c.depth, key=model_key
    )

    @BatchLoss
    def loss(model, starts, *, key):
        windows = training[starts[:, None] + jnp.arange(c.length + 1)]
        return next_token_loss(model, windows, key=key, dtype=c.dtype, start=False)

    schedule = optax.warmup_cosine_decay_schedule(0.0, c.rate, c.steps // 20, c.steps, 0.01 * c.rate)
    optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule, b2=0.99, weight_decay=0.1))
    run = fit(
        model, loss, jnp.arange(len(training) - c.length), optimiser, steps=c.steps, batch_size=c.batch, key=fit_key,
        measure=lambda model: next_token_loss(model, checking, start=False), every=c.every, patience=PATIENCE,
        progress=False,
    )  # fmt: skip
    print("nats on text kept apart:", *(f"{a:.3f}" for a in np.asarray(run.record)), flush=True)
    logits = jax.jit(jax.vmap(run.network))(checking[:, :-1])
    temperature = best_temperature(logits.reshape(-1, letters), checking[:, 1:].ravel())
    print(f"temperature {temperature:.3f}", flush=True)
    # the last normalisation is affine and logits are linear in it
    ends = lambda model: (model.encoder.norm.weight, model.encoder.norm.bias)  # noqa: E731
    return eqx.tree_at(ends, run.network, replace_fn=lambda a: a / temperature)


def main(size, seed):
    c = argparse.Namespace(**SIZES[size or ("cpu" if jax.default_backend() == "cpu" else "gpu")])
    text = shakespeare()
    letters = sorted(set(text))
    tokens = np.searchsorted(letters, list(text)).astype(np.int32)
    training, apart, held_out = np.split(tokens, [len(text) * 18 // 20, len(text) * 19 // 20])
    train_key, place_key, draw_key = jax.random.split(jax.random.key(seed), 3)
    began = time.perf_counter()
    checking = np.linspace(0, len(apart) - c.length - 1, c.checked).astype(int)[:, None] + np.arange(c.length + 1)
    model = trained(c, jnp.asarray(training), jnp.asarray(apart[checking]), len(letters), train_key)
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
