"""Words as vectors: what the singular value decomposition and skip-grams make of counts."""

from typing import Annotated

import jax
import jax.numpy as jnp

from corollary.evidence import Count, Range, Size, at_least, at_most, claim, control, equal, estimate
from corollary.language import SkipGram, cooccurrence, lsi, sample_sequence, shifted_pmi
from corollary.language.models import MarkovChain
from corollary.nets import truncated_svd


def _nearest(vectors):
    """The number of the nearest other row, by the cosine."""
    unit = vectors / jnp.linalg.norm(vectors, axis=1, keepdims=True)
    return jnp.argmax(unit @ unit.T - 2 * jnp.eye(len(vectors)), 1)


@claim(rows=("T17.02",))
def words_of_a_topic_lie_together(key, *, words: Size = 40, documents: Size = 60, length: Size = 300):
    r"""Linear algebra on counts finds which words belong together, without any labels.

    Latent semantic indexing keeps the $r$ leading singular vectors of the matrix of words and documents. No other
    product of rank $r$ is nearer to the counts in the mean square: not one whose documents span a random space and
    whose words are the best for it. Of a corpus in which every document draws nine tenths of its words from one
    half of the vocabulary, one topic, at least 95 percent of the words have their nearest neighbour in their own half;
    if all documents mix both topics alike, about half of them do.
    """
    topics = jnp.arange(words) % 2

    @jax.jit
    def measure(key):
        law_key, mixed_key, pure_key, other_key = jax.random.split(key, 4)
        inside = jax.nn.one_hot(topics, 2, dtype=float).T * (0.5 + jax.random.uniform(law_key, (2, words)))
        laws = 0.9 * inside / inside.sum(1, keepdims=True) + 0.1 / words
        about = laws[jnp.arange(documents) % 2]
        even = jnp.broadcast_to(laws.mean(0), about.shape)
        counts, mixed = (jax.random.multinomial(k, length, p).T for k, p in ((pure_key, about), (mixed_key, even)))
        found = lsi(counts, 2)
        product = found.words @ found.documents.T
        error = lambda m: jnp.linalg.norm(counts - m)  # noqa: E731
        bases = jnp.linalg.qr(jax.random.normal(other_key, (50, documents, 2)))[0]
        others = jax.vmap(lambda q: error(counts @ q @ q.T))(bases)
        own = [jnp.mean(topics[_nearest(v)] == topics, dtype=float) for v in (found.words, lsi(mixed, 2).words)]
        return product, truncated_svd(counts, 2), error(product), others, jnp.stack(own)

    product, svd, error, others, own = measure(key)
    yield equal("inner products of words and documents", product, svd, rtol=0, atol=1e-9)
    yield at_most("error against other products of rank 2", jnp.broadcast_to(error, others.shape), others)
    yield at_least("words whose nearest neighbour is of their topic", own[0], 0.95)
    yield control(
        "documents have one topic: here all mix both",
        at_least("words whose nearest neighbour is of their topic", own[1], 0.95),
    )


@claim(rows=("T17.03",))
def skip_grams_factor_mutual_information(
    key, *, vocabulary: Annotated[int, Range(3, 20)] = 8, length: Size = 5000, draws: Count = 4000
):
    r"""word2vec ends at the pointwise mutual information of the words, shifted by the number of negative samples.

    Skip-grams with $k$ negative samples on the counts of a text, with vectors as wide as the vocabulary and every pair
    seen: at the minimum $v_w\cdot u_c=\ln\frac{\#(w,c)|D|}{\#(w)\#(c)}-\ln k$. Vectors of the width 2 cannot do that.
    The loss of drawn pairs and drawn negative samples has the expected loss as its mean.
    """

    @jax.jit
    def measure(key):
        law_key, text_key, fit_key, draw_key = jax.random.split(key, 4)
        rows = 0.8 * jax.random.dirichlet(law_key, jnp.ones(vocabulary), (vocabulary,)) + 0.2 / vocabulary
        text = sample_sequence(MarkovChain(rows[0], rows), [0], length, key=text_key).tokens
        counts = cooccurrence(text, vocabulary, 2) + 0.5  # every pair is seen
        # one after the other: side by side a line search would go on until the longest has ended
        wide = jax.lax.map(
            lambda k: SkipGram.fit(counts, vocabulary, key=fit_key, negatives=k, steps=300).products(),
            jnp.array([1.0, 5.0]),
        )
        narrow = SkipGram.fit(counts, 2, key=fit_key, steps=300).products()
        model = SkipGram(vocabulary, 3, key=fit_key)
        pair_key, noise_key = jax.random.split(draw_key)
        law = jnp.log(counts / counts.sum()).ravel()
        pairs = jnp.stack(jnp.divmod(jax.random.categorical(pair_key, law, shape=(draws,)), vocabulary), 1)
        noise = jax.random.categorical(noise_key, jnp.log(counts.sum(0)), shape=(draws, 5))
        each = jax.vmap(lambda p, n: model.sampled_loss(p[None], n[None]))(pairs, noise)
        expected = model.loss(counts, 5.0), model.loss(counts, 1.0)
        return wide, narrow, counts, each, expected

    wide, narrow, counts, each, (five, one) = measure(key)
    pmi = jnp.stack([shifted_pmi(counts, k) for k in (1.0, 5.0)])
    # 300 steps of L-BFGS end within 1e-9 of the minimum; 1e-2 is what a reader of vectors would notice
    yield equal("inner products after training, k = 1 and 5", wide, pmi, rtol=0, atol=1e-2)
    yield estimate("loss of drawn pairs with five negative samples each", each, five, wrong=float(one))
    yield control(
        "vectors are as wide as the vocabulary: here of width 2",
        equal("inner products after training", narrow, pmi[0], rtol=0, atol=1e-2),
    )
