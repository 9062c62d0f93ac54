"""BERT: hidden words, context from both sides, and sentences that follow each other."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.claims.nets.attention._small import trainable
from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, estimate
from corollary.nets import train
from corollary.nets.attention import BERT, PretrainingBERT, mask_tokens, sentence_pairs, token_cross_entropy
from corollary.network import BatchLoss

ADAM = optax.adam(5e-3)


def _bert(vocabulary, length, key):
    """Two blocks: the first lets a word see another, the second what they are together. One often does not learn it."""
    return PretrainingBERT(BERT(vocabulary, length, 16, 2, 2, hidden=32, order="pre", key=key), key=key)


@claim(rows=("E06.16",))
def masking(key, *, tokens: Size = 200_000, words: Size = 20):
    r"""15 % of the words are to be guessed: 80 % of them hidden, 10 % replaced, 10 % as they were.

    Each word is chosen with probability 0.15, independently; a chosen one becomes [MASK] with probability 0.8, a word
    drawn uniformly with probability 0.1 (which may be the same one), and stays otherwise. Words that are not chosen
    stay as they are, and special tokens are never chosen.
    """
    special = tokens // 10

    @jax.jit
    def measure(key):
        text_key, mask_key = jax.random.split(key)
        text = jax.random.randint(text_key, (tokens,), 0, words).at[:special].set(words + 1)
        inputs, _, chosen = mask_tokens(text, words, words + 2, key=mask_key)
        inputs, text, chosen, touched = inputs[special:], text[special:], chosen[special:], chosen[:special]
        hidden, other = inputs == words + 2, (inputs != text) & (inputs != words + 2)
        return chosen, hidden, other, jnp.sum(touched) + jnp.sum((hidden | other) & ~chosen)

    chosen, hidden, other, wrong = measure(key)
    yield estimate("share of the words that are chosen", chosen, 0.15, wrong=0.2)
    yield estimate("share of the chosen that are hidden", hidden[chosen], 0.8, wrong=0.85)
    # one in `words` replacements is the word itself and does not show
    yield estimate("share of the chosen that are another word", other[chosen], 0.1 * (1 - 1 / words), wrong=0.12)
    yield equal("words changed that were not chosen, or are special", wrong, 0.0)


@claim(rows=("E06.15", "E06.16"))
def context_from_both_sides(key, *, steps: Count = 200):
    r"""Only a model that looks to both sides can fill in a word that both sides determine.

    The sentences are $(a,\,a+c\bmod k,\,c)$ with $a,c$ uniform, and the middle word is hidden. Given $a$ alone it is
    uniform, so that every model that reads from left to right has a loss of at least $\ln k$, at every step of its
    training, and is right for exactly one in $k$ sentences. BERT sees $c$ too and learns the table.
    """
    k = 5
    pairs = np.array(list(itertools.product(range(k), repeat=2)))
    answers = pairs.sum(1) % k
    masks = jnp.stack([jnp.ones((3, 3), bool), jnp.tri(3, dtype=bool)])
    sentences = np.stack([pairs[:, 0], np.full(k * k, k + 2), pairs[:, 1]], 1)  # the mask is the third special token

    @jax.jit
    def measure(key):
        net = trainable(lambda key: _bert(k, 3, key), key)

        def logits(net, mask):
            return jax.vmap(lambda tokens: net(tokens, None, mask)[0][1])(sentences)

        def one(mask):
            loss = BatchLoss(lambda net, _: token_cross_entropy(logits(net, mask), answers).mean())
            run = train(net, loss, (), ADAM, steps=steps)
            return run.losses, jnp.sum(logits(run.network, mask).argmax(-1) == answers)

        return jax.vmap(one)(masks)

    losses, right = measure(key)
    yield at_least("left to right: loss in training", losses[1], np.log(k), along="step")
    yield equal(f"left to right: right answers of {k * k}", right[1], k)
    yield equal(f"both sides: right answers of {k * k}", right[0], k * k)
    yield control("with both sides", at_least("loss in training", losses[0], np.log(k), along="step"))


@claim(rows=("E06.17",))
def next_sentence(key, *, steps: Count = 250, sentences: Size = 1201):
    r"""Whether a sentence follows another can be learned where order means something, and only there.

    A text counts around a circle, two numbers a sentence, so that it has $m$ different ones. Half of the pairs are a
    sentence and its successor, the others a sentence and another one, which is worded like the successor in one of $m$
    cases. Nobody can be right more often than $1-\frac1{2m}$ or have a smaller loss than the entropy of the answer
    given the pair; a classifier on [CLS] comes there. In the same text with its sentences in a random order the
    successor is like any other sentence, and the classifier is right half of the time on new pairs.
    """
    m = 4
    pairs = np.array(list(itertools.product(range(m), repeat=2)))
    best = (pairs[:, 1] - pairs[:, 0]) % m == 1

    @jax.jit
    def measure(key):
        keys = jax.random.split(key, 4)
        net = trainable(lambda key: _bert(2 * m, 7, key), keys[0])
        kinds = jnp.arange(sentences) % m
        texts = jnp.stack([kinds, jax.random.permutation(keys[1], kinds)])
        words = 2 * pairs[..., None] + jnp.arange(2)
        tokens, segments = jax.vmap(net.encoder.sentences)(words[:, 0], words[:, 1])

        def logits(net):
            return jax.vmap(lambda t, s: net(t, s)[1])(tokens, segments)

        def drawn_pairs(key, text):
            first, second, follows = sentence_pairs(text[:, None], key=key)
            return first[:, 0] * m + second[:, 0], follows

        def one(text):
            pair, follows = drawn_pairs(keys[2], text)
            law = jnp.zeros((m * m, 2)).at[pair, follows].add(1 / len(pair))
            loss = BatchLoss(lambda net, _: -jnp.sum(law * jax.nn.log_softmax(logits(net))))
            run = train(net, loss, (), ADAM, steps=steps)
            answers = logits(run.network).argmax(-1)
            entropy = jax.scipy.special.entr(law).sum() - jax.scipy.special.entr(law.sum(1)).sum()
            pair, follows = drawn_pairs(keys[3], text)
            # every second pair: those share no sentence
            return run.losses, entropy, answers, (answers[pair] == follows)[::2].astype(float)

        return jax.vmap(one)(texts)

    losses, entropy, answers, right = measure(key)
    most = 1 - 0.5 / m
    yield at_least("loss in training", losses, entropy[:, None], along="step")
    yield at_most("distance from the entropy at the end", losses[0, -1] - entropy[0], 0.02)
    yield equal("the best answer for every pair", answers[0], best)
    yield estimate("share of right answers on new pairs", right[0], most, wrong=0.75)
    yield estimate("sentences in random order: right answers on new pairs", right[1], 0.5, wrong=0.75)
    yield control(
        "sentences in random order", estimate("share of right answers on new pairs", right[1], most, wrong=0.75)
    )
