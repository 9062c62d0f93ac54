"""A scaling law whose constant is known: transformers on a source with a known entropy rate.

    python examples/language/scaling_law.py                             # some ten minutes on a GPU
    python examples/language/scaling_law.py --quick                     # seconds, and it shows
    python examples/language/scaling_law.py --kept runs --widths 48 64  # a part, beside others in other processes
    python examples/language/scaling_law.py --kept runs                 # what is not there yet, and the law of all

The source is a chain of order two over 512 tokens. Every pair of tokens has a rule, the token that mostly follows it,
and pairs come up as often as Zipf's law says: more parameters hold more rules, more tokens show rarer ones, and the
loss falls like powers of both. Its entropy rate is a sum over pairs, and so the constant of the law has a true value,
which no model was told. Every token is seen once. The loss of a model is the entropy rate and the divergence of its
predictions from those of the source, which is computed and not drawn, on tokens that are new.
"""

import argparse
import json
import time
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.language import chinchilla_loss, fit_scaling_law
from corollary.nets import parameter_count, train
from corollary.nets.attention import LanguageModel, token_cross_entropy
from corollary.nets.initialisations import normal
from corollary.network import BatchLoss

SIZES = {
    "quick": dict(
        vocabulary=16, widths=(4, 8), tokens=(2**8, 2**9, 3 * 2**8, 2**10, 2**11), batch=2**7, looks=2**9, draws=8
    ),
    "cpu": dict(
        vocabulary=512, widths=(8, 16, 32), tokens=(2**18, 2**19, 2**20, 2**21), batch=2**9, looks=2**16, draws=100
    ),
    "gpu": dict(
        vocabulary=512,
        widths=(12, 16, 24, 32, 48, 64),
        tokens=(2**20, 2**21, 2**22, 2**23),
        batch=2**9,
        looks=2**20,
        draws=400,
    ),
}
LENGTH, KEPT = 8, 0.5  # tokens that are predicted in a piece of text, and how often a rule is kept
LARGEST = 4  # runs that are predicted from the others


def picked(sums, u):
    """The outcome that a uniform number picks, of a law that is summed up along the last axis."""
    return jnp.sum(u[..., None] >= sums[..., :-1], -1)


class Source(NamedTuple):
    """After tokens (a, b) comes `rule[a, b]` with probability one half, else a token of Zipf's law."""

    zipf: jax.Array
    rule: jax.Array
    first: jax.Array  # the stationary law of one token, and of the token after each, both summed up
    second: jax.Array

    def draw(self, count, key):
        """`count` independent pieces of the stationary chain, `LENGTH` tokens and the two before them."""
        pair_key, coin_key, token_key = jax.random.split(key, 3)
        before = jax.random.uniform(pair_key, (2, count))
        a = picked(self.first, before[0])
        pair = a, picked(self.second[a], before[1])
        kept = jax.random.bernoulli(coin_key, KEPT, (LENGTH, count))
        other = picked(jnp.cumsum(self.zipf), jax.random.uniform(token_key, (LENGTH, count)))

        def one(pair, drawn):
            token = jnp.where(drawn[0], self.rule[pair], drawn[1])
            return (pair[1], token), token

        _, tokens = jax.lax.scan(one, pair, (kept, other), unroll=LENGTH)
        return jnp.concatenate([jnp.stack(pair), tokens]).T

    def divergence(self, logits, a, b):
        """Of the laws that the logits stand for from those of the token after a and b, in nats."""
        found, rest = jax.nn.log_softmax(logits), (1 - KEPT) * self.zipf
        rule = self.rule[a, b]
        hit = rest[rule]
        entropy = -jnp.sum(rest * jnp.log(rest)) + hit * jnp.log(hit) - (hit + KEPT) * jnp.log(hit + KEPT)
        return -KEPT * jnp.take_along_axis(found, rule[..., None], -1)[..., 0] - jnp.sum(found * rest, -1) - entropy


def zipf_source(vocabulary, exponent, key):
    """A source with rules drawn at random, and its entropy rate: the mean over the pairs that the chain keeps."""
    zipf = np.arange(1, vocabulary + 1) ** -exponent
    zipf /= zipf.sum()
    rule = np.asarray(jax.random.choice(key, vocabulary, (vocabulary, vocabulary), p=jnp.asarray(zipf)))
    pairs, second = np.outer(zipf, zipf), np.broadcast_to(np.arange(vocabulary), rule.shape)
    for _ in range(100):  # each turn forgets half of what was before it
        after = (1 - KEPT) * np.outer(pairs.sum(0), zipf)
        np.add.at(after, (second, rule), KEPT * pairs)
        pairs = after
    rest = (1 - KEPT) * zipf
    hit = rest[rule]
    entropies = -np.sum(rest * np.log(rest)) + hit * np.log(hit) - (hit + KEPT) * np.log(hit + KEPT)
    once = pairs.sum(1)
    sums = np.cumsum(once), np.cumsum(pairs / once[:, None], 1)
    return Source(*map(jnp.asarray, (zipf, rule, *sums))), float(np.sum(pairs * entropies))


def source_loss(count):
    """The mean over `count` new pieces of text, for the tokens that have two before them."""

    @BatchLoss
    def loss(model, source, *, key):
        pieces = source.draw(count, key)
        return token_cross_entropy(jax.vmap(model)(pieces[:, :-1])[:, 1:], pieces[:, 2:]).mean()

    return loss


@eqx.filter_jit
def excesses(models, source, pieces):
    """The mean divergence of each model's predictions from those of the source."""

    def one(model):
        def part(piece):
            return source.divergence(model(piece[:-1])[1:], piece[:-2], piece[1:-1]).mean()

        return jax.lax.map(part, pieces, batch_size=256).mean()

    return eqx.filter_vmap(one)(models)


def trained(c, source, width, key):
    """Models of this width, one for each number of tokens: one program, in which those that are done stand still."""
    model_key, train_key = jax.random.split(key)
    # embeddings of length one: with smaller ones most steps of short runs pass before the first rule is learned
    initialisation = normal(width**-0.5)
    model = LanguageModel(
        len(source.zipf), LENGTH + 1, width, 2, 2, unroll=2, key=model_key, initialisation=initialisation
    )
    peak = min(0.02, 0.3 / width)
    loss, steps = source_loss(c.batch // LENGTH), max(c.tokens) // c.batch

    def one(horizon):
        def rate(step):  # up in a twentieth of the steps, down to zero at the last one
            share = jnp.minimum(step / horizon, 1)
            return peak * jnp.minimum(20 * share, 1) * (1 + jnp.cos(jnp.pi * share)) / 2

        optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(rate, b2=0.99))
        return train(model, loss, source, optimiser, steps=steps, key=train_key).network

    return model, eqx.filter_vmap(one)(jnp.asarray(c.tokens) // c.batch)


def runs_of(c, source, entropy, width, pieces, key, kept):
    """Parameters, tokens and loss of the models of a width: measured, or read where they are kept from before."""
    path = kept and kept.with_name(f"{kept.name}-{width}.json")
    if path and path.exists():
        return [tuple(run) for run in json.loads(path.read_text())]
    began = time.perf_counter()
    model, models = trained(c, source, width, key)
    found = np.asarray(excesses(models, source, pieces))
    parameters = parameter_count(model.encoder)
    shown, seconds = "  ".join(f"{a:.4f}" for a in found), time.perf_counter() - began
    print(f"width {width:3d}, {parameters:7,} parameters: above it by  {shown}   {seconds:.0f} s", flush=True)
    runs = [(parameters, tokens, entropy + float(e)) for tokens, e in zip(c.tokens, found, strict=True)]
    if path:
        path.write_text(json.dumps(runs))
    return runs


def constants(size, tokens, losses, draws, key):
    """The constants of laws that are fitted to runs drawn with replacement."""
    chosen = jax.random.randint(key, (draws, len(size)), 0, len(size))

    def one(chosen):
        return fit_scaling_law(size[chosen], tokens[chosen], losses[chosen]).constant

    return np.asarray(jax.jit(jax.vmap(one))(chosen))


def main(size, seed, exponent, kept=None, widths=None):
    c = argparse.Namespace(**SIZES[size or ("cpu" if jax.default_backend() == "cpu" else "gpu")])
    source_key, look_key, train_key, draw_key = jax.random.split(jax.random.key(seed), 4)
    source, entropy = zipf_source(c.vocabulary, exponent, source_key)
    pieces = source.draw(c.looks // LENGTH, look_key)
    print(f"entropy rate of the source: {entropy:.4f} nats", flush=True)
    runs = []
    for width in widths or c.widths:
        runs += runs_of(c, source, entropy, width, pieces, train_key, kept)
    if widths:
        return None

    with jax.enable_x64(True):  # five numbers from few runs: the last digits count
        numbers, tokens, losses = (jnp.asarray(column, float) for column in zip(*runs, strict=True))
        law = fit_scaling_law(numbers, tokens, losses)
        ends = np.quantile(constants(numbers, tokens, losses, c.draws, draw_key), [0.025, 0.975])
        order = jnp.argsort(numbers * tokens)
        small, large = order[:-LARGEST], order[-LARGEST:]
        part = fit_scaling_law(numbers[small], tokens[small], losses[small])
        errors = np.asarray(chinchilla_loss(numbers[large], tokens[large], part) - losses[large])
    print(
        f"{len(runs)} runs: {law.constant:.4f} + {law.size_factor:.3g} N^-{law.size_exponent:.3f}"
        f" + {law.data_factor:.3g} D^-{law.data_exponent:.3f}"
    )
    print(
        f"constant {law.constant:.4f}, 95 % of draws of runs from {ends[0]:.4f} to {ends[1]:.4f}: {entropy:.4f} is true"
    )
    print(f"the {LARGEST} largest, predicted from the others: wrong by", *(f"{e:+.4f}" for e in errors))
    return entropy, law, ends, errors


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_const", const="quick", dest="size")
    parser.add_argument("--size", choices=SIZES, help="by the device unless given")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--exponent", type=float, default=1.5, help="of Zipf's law")
    parser.add_argument("--kept", type=Path, help="a folder for the runs: what is there is not trained again")
    parser.add_argument("--widths", type=int, nargs="+", help="only these, and no law")
    args = parser.parse_args()
    kept = None
    if args.kept:
        args.kept.mkdir(parents=True, exist_ok=True)
        kept = args.kept / f"{args.size or 'device'}-{args.seed}-{args.exponent:g}"
    main(args.size, args.seed, args.exponent, kept, args.widths)
