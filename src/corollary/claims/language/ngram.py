"""Models that count: the best of their kind on their own text, and how fast they learn a source."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, rate
from corollary.foundations import kl
from corollary.language import MarkovChain, NGram, excess_entropy, sample_sequence, sft_loss


@claim(rows=("T15.02",))
def frequencies_are_most_likely(key, *, tokens: Size = 6, length: Count = 2000, others: Count = 1000):
    r"""The unigram model of a text pays its entropy per token, and every other law pays more by its KL.

    With the frequencies $\hat p$ of a text, the loss of independent words with law $q$ is
    $H(\hat p)+\mathrm{KL}(\hat p\|q)$ per token: least at $q=\hat p$.
    """

    @jax.jit
    def measure(key):
        law_key, text_key, other_key = jax.random.split(key, 3)
        law = jax.random.dirichlet(law_key, jnp.ones(tokens))
        text = jax.random.categorical(text_key, jnp.log(law), shape=(length,))
        found = NGram.fit(text, 1, vocabulary=tokens, smoothing=0.0).laws[0][0]
        rivals = jax.random.dirichlet(other_key, jnp.ones(tokens), (others,))
        paid = jax.vmap(lambda q: -jnp.mean(jnp.log(q)[text]))
        entropy = jnp.sum(jax.scipy.special.entr(found))
        return paid(found[None])[0], paid(rivals), entropy, kl(jnp.broadcast_to(found, rivals.shape), rivals)

    own, rivals, entropy, distance = measure(key)
    yield equal("loss of the frequencies, the entropy", own, entropy, rtol=1e-12)
    yield equal("loss of other laws, entropy + KL", rivals, entropy + distance, rtol=1e-12)


@claim(rows=("T15.03",))
def bigrams_learn_a_chain(key, *, tokens: Size = 5, runs: Size = 100):
    r"""The excess entropy of a bigram model of a Markov chain falls as V(V-1)/2n, and does not on a source of order 2.

    From $n$ tokens of a chain of $V$ tokens, the frequencies of pairs have an excess entropy with the mean
    $\frac{V(V-1)}{2n}$ nats per token, up to lower order. A bigram model of a source that looks two tokens back keeps
    an excess however long the text is.
    """
    lengths = 2 ** np.arange(11, 16)

    @jax.jit
    def measure(key):
        law_key, draw_key = jax.random.split(key)
        # rows away from the edges, so that the second order of the KL counts at these lengths
        rows = jax.random.dirichlet(law_key, 3 * jnp.ones(tokens), (tokens + 1,))
        source = MarkovChain(rows[0], rows[1:])

        def excess(key):
            text = sample_sequence(source, [0], int(lengths[-1]), key=key).tokens
            fits = [NGram.fit(text[:n], 2, vocabulary=tokens, smoothing=0.01) for n in lengths.tolist()]
            return jnp.stack([excess_entropy(source, fit.chain()) for fit in fits])

        # a source of order 2: every pair of tokens has its own law
        pairs = jax.random.dirichlet(law_key, 3 * jnp.ones(tokens), (tokens**2,))
        longer = NGram((rows[:1], rows[1:], pairs))

        def loss(key):
            text = sample_sequence(longer, [0], int(lengths[-1]), key=key).tokens
            a, b, c = text[:-2], text[1:-1], text[2:]
            truth = jnp.log(pairs[tokens * a + b, c])
            fits = [NGram.fit(text[:n], 2, vocabulary=tokens, smoothing=0.01).laws[1] for n in lengths.tolist()]
            return jnp.stack([jnp.mean(truth - jnp.log(fit[b, c])) for fit in fits])

        keys = jax.random.split(draw_key, runs)
        return jax.vmap(excess)(keys).mean(0), jax.vmap(loss)(keys[:10]).mean(0)

    excess, kept = measure(key)
    yield rate("excess entropy of the bigram model", lengths, excess, -1.0, tolerance=0.1, along="tokens")
    # half a chi-square of 20 degrees: 100 runs know its mean to 3 %
    expected = tokens * (tokens - 1) / (2 * lengths)
    yield equal("against V(V-1)/2n", excess / expected, 1.0, rtol=0, atol=0.15, x=lengths, along="tokens")
    yield at_least("what a source of order 2 leaves", kept, 0.05, x=lengths, along="tokens")
    yield control(
        "the source looks one token back: here two",
        rate("excess of the bigram model", lengths, kept, -1.0, tolerance=0.1, along="tokens"),
    )


@claim(rows=("T15.20",))
def fine_tuning_ends_at_frequencies(key, *, tokens: Size = 4, pairs: Count = 400):
    r"""Supervised fine-tuning of a table ends at the frequencies of answers after each prompt; prompts teach nothing.

    Minimising $-\sum\ln\pi(y\mid x)$ over the tokens of $y$ alone, a table of conditional laws ends at the empirical
    $\hat\Pr[y\mid x]$. The rows of logits at which the prompt is predicted have the gradient 0.
    """

    @jax.jit
    def measure(key):
        law_key, x_key, y_key, start_key = jax.random.split(key, 4)
        laws = jax.random.dirichlet(law_key, 2 * jnp.ones(tokens), (tokens,))
        prompts = jax.random.randint(x_key, (pairs, 3), 0, tokens)
        answers = jax.random.categorical(y_key, jnp.log(laws)[prompts[:, -1]])[:, None]

        def loss(table, start=0):
            one = lambda x, y: sft_loss(lambda t: table[t], x[start:], y)  # noqa: E731
            return jnp.mean(jax.vmap(one)(prompts, answers))

        def all_tokens(table):  # the loss of a text, the prompt's own tokens too
            one = lambda x, y: sft_loss(lambda t: table[t], x[:1], jnp.concatenate([x[1:], y]))  # noqa: E731
            return jnp.mean(jax.vmap(one)(prompts, answers))

        def trained(loss):
            start = jax.random.normal(start_key, (tokens, tokens))
            return jax.lax.scan(lambda t, _: (t - 8.0 * jax.grad(loss)(t), None), start, None, length=4000)[0]

        counts = jnp.zeros((tokens, tokens)).at[prompts[:, -1], answers[:, 0]].add(1.0)
        rows = jax.random.normal(start_key, (4, tokens))
        slopes = jax.grad(lambda z: sft_loss(lambda t: z, prompts[0], answers[0]))(rows)
        ends = [jax.nn.softmax(trained(f)) for f in (loss, all_tokens)]
        return counts / counts.sum(1, keepdims=True), ends, jnp.abs(slopes).sum(1)

    frequencies, (found, everything), slopes = measure(key)
    # rows with a quarter of the pairs and step 8: a rate of 2 p per step for every probability p of a row, and
    # an answer that was never seen falls as 1/steps: 4,000 steps leave 1e-3 at most
    yield equal("table after fine-tuning", found, frequencies, rtol=0, atol=2e-3)
    yield equal(
        "gradient at rows that predict the prompt, or nothing", slopes[jnp.array([0, 1, 3])], 0.0, rtol=0, atol=0
    )
    yield at_most("gradient at the row that predicts the answer", -slopes[2], -1e-3)
    yield control(
        "only tokens of the answer count: here those of the prompt too",
        equal("table after fine-tuning", everything, frequencies, rtol=0, atol=2e-3),
    )
