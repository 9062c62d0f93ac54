"""Questions about the next word: how well they tell a model from a human, and how much of its loss they keep."""

import itertools
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Range, Size, at_least, at_most, claim, control, equal, monotone, rate
from corollary.foundations import kl
from corollary.language import MarkovChain, NGram, cloze_question, excess_entropy, long_run_law, sample_sequence


@claim(rows=("T15.13", "T15.28"))
def a_question_with_few_mistakes(key, *, words: Annotated[int, Range(2, 12)] = 6, pairs: Size = 100_000):
    r"""Where the excess entropy is small there is a question that the model answers as a human does, almost always.

    Let $p$ and $q$ be the laws of the next word to the human and to the model, and $\epsilon=\mathrm{KL}(p\|q)$ nats.
    Of all questions whether it belongs to a set, that of $A=\{p>q\}$ sets them apart farthest, by
    $p(A)-q(A)\le\sqrt{\epsilon/2}\le\sqrt{2\epsilon}$; so often do answers differ that are drawn to agree where they
    can. The text has the second bound, of which never more than half is used: the first one is attained in the limit,
    by $p=(\frac12+\delta,\frac12-\delta)$ and even $q$. A human who is certain has no entropy, so that all of the loss
    on the question is excess, $\ln2$ if the model does not know at all.
    """
    sets = np.array(list(itertools.product([0.0, 1.0], repeat=words)))
    deltas = 2.0 ** -np.arange(3, 9)

    @jax.jit
    def measure(key):
        p_key, q_key = jax.random.split(key)
        p = jax.random.dirichlet(p_key, jnp.ones(words), (pairs,))
        q = jax.random.dirichlet(q_key, jnp.ones(words), (pairs,))
        found = cloze_question(p, q)
        gap = found.human[:, 0] - found.model[:, 0]
        apart = found.human[:, 0] * found.model[:, 1] + found.human[:, 1] * found.model[:, 0]
        best = jnp.max((p - q)[:2000] @ sets.T, -1)
        tight = jnp.stack([0.5 + deltas, 0.5 - deltas], -1), jnp.full((deltas.size, 2), 0.5)
        used = cloze_question(*tight).disagreement / jnp.sqrt(kl(*tight) / 2)
        sure = cloze_question(jnp.array([1.0, 0.0]), jnp.array([0.5, 0.5]))
        return gap, kl(p, q), best, apart, used, jnp.stack([sure.loss, sure.excess, sure.entropy])

    gap, epsilon, best, apart, used, sure = measure(key)
    yield equal("the farthest of all sets of words", gap[:2000], best, rtol=0, atol=1e-14)
    yield at_most("how often the answers differ", gap, jnp.sqrt(epsilon / 2), atol=1e-14)
    yield at_most("how much of the text's bound is used", gap / jnp.sqrt(2 * epsilon), 0.5)
    yield rate("what is missing to the sharp bound", deltas, 1 - used, 2.0, tolerance=0.02, along="δ")
    yield equal("loss, excess and entropy of a certain human's question", sure, [np.log(2), np.log(2), 0.0])
    yield control(
        "answers agree where they can: here they are drawn independently",
        at_most("how often the answers differ", apart, jnp.sqrt(epsilon * 2)),
    )


@claim(rows=("T15.27",), no_control="an assumption of the text: the claim says for which questions it holds")
def questions_keep_the_excess(key, *, words: Annotated[int, Range(8, 60)] = 30, length: Size = 6000):
    r"""Questions made for a model lose as much as its excess entropy, if they have choices enough.

    The text assumes that the mean loss on cloze questions, beyond what a human loses, follows the excess entropy within
    a factor such as 1.1. A bigram model is fitted to a text of a Markov source and asked about the word after every
    word $a$, as often as $a$ comes in the long run. Choices that cut the range of $\ln\frac{p(w)}{q(w)}$ into parts
    $w$ wide, at most, keep of the excess $\epsilon$ at every place at least $\epsilon-\frac{w^2}8$ and never more than
    all of it. Twice as many choices keep no less, and sixteen keep more than $\frac1{1.1}$. Two keep less, and so do
    sixteen choices that are dealt to the words at random.
    """
    choices = 2 ** np.arange(1, 7)

    @jax.jit
    def measure(key):
        law_key, text_key, deal_key = jax.random.split(key, 3)
        even = jnp.full(words, 1 / words)
        p = 0.9 * jax.random.dirichlet(law_key, 0.5 * jnp.ones(words), (words,)) + 0.1 / words
        source = MarkovChain(even, p)
        text = sample_sequence(source, [0], length, key=text_key).tokens
        q = NGram.fit(text, 2, vocabulary=words, smoothing=0.5).chain().transition
        share, ratio = long_run_law(source), jnp.log(p) - jnp.log(q)
        kept = jnp.stack([cloze_question(p, q, int(m)).excess for m in choices])
        widest = jnp.maximum(ratio.max(-1), -ratio.min(-1)) / (choices[:, None] / 2)
        dealt = jax.random.permutation(deal_key, jnp.arange(words) % 16)
        held = jax.nn.one_hot(dealt, 16, dtype=p.dtype)
        mixed = share @ kl(p @ held, q @ held)
        return kept, widest, kl(p, q), excess_entropy(source, MarkovChain(even, q)), kept @ share, mixed

    kept, widest, places, total, means, mixed = measure(key)
    yield at_most("excess on the question at every place", kept, np.broadcast_to(places, kept.shape), atol=1e-14)
    yield at_least("excess that is kept at every place", kept, places - widest**2 / 8, atol=1e-14)
    yield monotone("mean excess on the questions", means, "increasing", atol=1e-15, x=choices, along="choices")
    yield at_least("share that sixteen choices keep", means[3] / total, 1 / 1.1)
    yield at_most("share that two choices keep", means[0] / total, 1 / 1.1)
    yield at_most("share that sixteen choices keep, dealt at random", mixed / total, 1 / 1.1)
