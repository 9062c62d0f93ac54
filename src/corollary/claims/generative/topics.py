"""Topics of documents, found from their words."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Size, at_least, claim, control, rate
from corollary.generative import TopicModel


@claim(rows=("T14.04",))
def longer_documents_tell_their_topics(key, *, runs: Size = 100, words: Size = 12):
    r"""The proportions of topics in a document are found with an error of one over the root of its length.

    Words are drawn from $\sum_th_tA_t$ with known laws $A_t$ of three topics, linearly independent; $h$ is estimated by
    maximum likelihood, which no other proportions that were tried exceed. If two topics have the same words, their
    proportions are not to be told apart by any length.
    """
    lengths = 2 ** np.arange(6, 13)

    @jax.jit
    def measure(key):
        t_key, d_key, o_key = jax.random.split(key, 3)
        topics = jax.random.dirichlet(t_key, jnp.full(words, 0.3), (3,))
        apart = TopicModel(topics, 3.0)
        alike = TopicModel(topics.at[1].set(topics[0]), 3.0)

        def errors(model):
            def document(key):
                # the first words of one long document
                h_key, w_key = jax.random.split(key)
                h = jax.random.dirichlet(h_key, jnp.full(3, model.concentration))
                drawn = jax.random.categorical(w_key, jnp.log(h @ model.topics), shape=(lengths[-1],))
                counts = [jnp.bincount(drawn[:n], length=words).astype(float) for n in lengths.tolist()]
                found = jnp.stack([model.infer(c, steps=200) for c in counts])
                return jnp.sum((found - h) ** 2, 1), found[0], counts[0]

            squares, found, counts = jax.lax.map(document, jax.random.split(d_key, runs), batch_size=50)
            return jnp.sqrt(jnp.mean(squares, 0)), found, counts

        error, found, counts = errors(apart)
        others = jax.random.dirichlet(o_key, jnp.ones(3), (100,))
        best = jax.vmap(apart.log_likelihood)(found, counts)
        tried = jax.vmap(lambda c: jax.vmap(lambda h: apart.log_likelihood(h, c))(others).max())(counts)
        return error, errors(alike)[0], best, tried

    error, stuck, best, tried = measure(key)
    yield rate("error of the proportions", lengths, error, -0.5, tolerance=0.1, along="words")
    yield at_least("likelihood against other proportions", best, tried)
    yield control("topics with different words", rate("error", lengths, stuck, -0.5, tolerance=0.1, along="words"))
