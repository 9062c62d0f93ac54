"""One sequence into another, through one vector and with attention: strings reversed, and a language translated.

    python examples/architectures/translation.py             # a minute on a GPU, some on two CPU cores
    python examples/architectures/translation.py --quick     # seconds: too short to learn much

The language has sentences of any length ("the old dog near a red tree sees a cat"). Its translation has the verb last,
adjectives after their noun in the opposite order, and postpositions. Printed is the share of test sequences that are
right in every token, by length, and one sentence as the different ways of decoding write it.
"""

import argparse
import random
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.language import Decoded, Tokeniser, Whole, beam_search, greedy_search, sample_sequence
from corollary.nets import fit
from corollary.nets.attention import teacher_forcing_loss
from corollary.nets.recurrent import Seq2Seq
from corollary.network import BatchLoss

BOTH = ["reversal", "translation"]
SIZES = {
    "quick": dict(tasks=BOTH[1:], units=16, steps=60, batch=16, examples=600, longest=8, rate=1e-2),
    "cpu": dict(tasks=BOTH, units=64, steps=1200, batch=64, examples=20_000, longest=16, rate=5e-3),
    "gpu": dict(tasks=BOTH, units=128, steps=4000, batch=256, examples=100_000, longest=30, rate=3e-3),
}
END = 0  # also what shorter sequences are filled up with
THE, OLD, DOG, SEES, NEAR = "the a", "old red big wise", "dog cat tree king", "sees likes", "near behind"
ENGLISH = f"{THE} {OLD} {DOG} {SEES} {NEAR}".split()
FOREIGN = "lo un veka rosa gran sabi kano fela arbo rego vidi ami apu tras"
FOREIGN = dict(zip(ENGLISH, FOREIGN.split(), strict=True))


def phrase(rng, depth=0):
    """A noun phrase and its translation: determiner, adjectives, noun, perhaps another phrase that says where."""
    the, dog, near = (rng.choice(words.split()) for words in (THE, DOG, NEAR))
    old = rng.sample(OLD.split(), rng.randrange(3))
    here, there = [the, *old, dog], [dog, *reversed(old), the]
    if depth < 2 and rng.random() < 0.4:
        inner, translated = phrase(rng, depth + 1)
        here, there = [*here, near, *inner], [*translated, near, *there]
    return here, there


def pair(rng, task, longest):
    """A source and its target: letters backwards, or subject, verb, object as subject, object, verb."""
    if task == "reversal":
        letters = rng.choices("abcdefgh", k=rng.randint(1, longest))
        return letters, letters[::-1]
    (a, a_there), (b, b_there), sees = phrase(rng), phrase(rng), rng.choice(SEES.split())
    return [*a, sees, *b], [FOREIGN[word] for word in [*a_there, *b_there, sees]]


def encoded(side):
    """The tokeniser of one side, and its texts as an array: token 0, which means unknown, is free to be the end."""
    texts = ["".join(f" {word}" for word in words) for words in side]
    tokeniser = Tokeniser.train(Whole, "".join(texts), 100)
    ids = [tokeniser.encode(text) for text in texts]
    size = max(map(len, ids)) + 1
    return tokeniser, np.stack([np.pad(i, (0, size - len(i)), constant_values=END) for i in ids])


def main(size, seed):
    c = argparse.Namespace(**SIZES[size or ("cpu" if jax.default_backend() == "cpu" else "gpu")])
    rng, key, tests = random.Random(seed), jax.random.key(seed), c.examples // 20
    optimiser = optax.chain(
        optax.clip_by_global_norm(1.0),
        optax.adam(optax.warmup_cosine_decay_schedule(0.0, c.rate, c.steps // 20, c.steps)),
    )
    for task in c.tasks:
        pairs = [pair(rng, task, c.longest) for _ in range(c.examples)]
        (source, x), (target, y) = map(encoded, zip(*pairs, strict=True))
        lengths, right = (x[:tests] != END).sum(1), []
        for attention in (False, True):
            model = Seq2Seq(len(source), len(target), c.units, key=key, attention=attention, pad=END)
            data = jnp.asarray(x[tests:]), jnp.asarray(y[tests:])
            loss = BatchLoss(teacher_forcing_loss)
            model = fit(model, loss, data, optimiser, steps=c.steps, key=key, batch_size=c.batch).network
            write = eqx.filter_jit(lambda model, x, n=y.shape[1]: jax.vmap(lambda x: model.generate(x, n, END))(x))
            right.append((np.asarray(write(model, x[:tests])) == y[:tests]).all(1))
        print(f"\n{task}: sequences right in every token\n  lengths    one vector     attention")
        for low, high in pairwise(np.unique([0, *np.quantile(lengths, [0.25, 0.5, 0.75, 1]).astype(int)])):
            some = (lengths > low) & (lengths <= high)
            print(f"{low + 1:>4} to {high:<2}" + "".join(f"{share[some].mean():14.1%}" for share in right))
        print("      all" + "".join(f"{share.mean():14.1%}" for share in right))

    print("\nthe longest of them, with ln p:")
    longest = int(np.argmax(lengths))
    prompt, n = [model.start], y.shape[1]
    model = model.given(x[longest])
    beams = beam_search(model, prompt, n, 4, end=END)
    ways = {
        "greedy": greedy_search(model, prompt, n, end=END),
        "beam of 4": Decoded(beams.tokens[0], beams.log_probability[0]),
        "ancestral": sample_sequence(model, prompt, n, key=key, end=END),
        "temperature 3": sample_sequence(model, prompt, n, key=key, temperature=3.0, end=END),
        "3 and top-k 2": sample_sequence(model, prompt, n, key=key, temperature=3.0, top_k=2, end=END),
        "3 and top-p .8": sample_sequence(model, prompt, n, key=key, temperature=3.0, top_p=0.8, end=END),
    }
    for name, words in zip(("source", "target"), pairs[longest], strict=True):
        print(f"{name:>14}          {' '.join(words)}")
    for name, found in ways.items():
        print(f"{name:>14} {found.log_probability:7.2f} {target.decode(found.tokens).replace('[UNK]', '')}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_const", const="quick", dest="size")
    parser.add_argument("--size", choices=SIZES, help="by the device unless given")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    main(args.size, args.seed)
