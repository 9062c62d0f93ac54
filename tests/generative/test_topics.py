"""Topic proportions against a grid, and documents against the law of their words."""

import jax
import numpy as np
import pytest
from sklearn.decomposition import LatentDirichletAllocation

from corollary.generative import TopicModel

TOPICS = np.array([[0.7, 0.2, 0.1, 0.0], [0.0, 0.1, 0.3, 0.6]])


def test_the_most_likely_proportions():
    model, counts = TopicModel(TOPICS), np.array([5.0, 3.0, 2.0, 9.0])
    h = jax.jit(lambda counts: model.infer(counts))(counts)
    grid = np.linspace(1e-3, 1 - 1e-3, 999)
    values = (np.log(grid[:, None] * TOPICS[0] + (1 - grid[:, None]) * TOPICS[1]) * counts).sum(1)
    assert float(h[0]) == pytest.approx(grid[values.argmax()], abs=1e-3)
    assert float(model.log_likelihood(h, counts)) == pytest.approx(values.max(), abs=1e-4)


def test_proportions_of_long_documents_are_those_of_scikit_learn():
    counts = 10_000 * np.array([[5.0, 3.0, 2.0, 9.0], [1.0, 1.0, 1.0, 1.0], [9.0, 1.0, 1.0, 0.0]])
    peer = LatentDirichletAllocation(2, doc_topic_prior=1.0, max_doc_update_iter=2000, mean_change_tol=1e-9)
    peer.fit(counts)
    peer.components_ = peer.exp_dirichlet_component_ = TOPICS + 1e-300  # known topics: only proportions are inferred
    # the mean under a posterior that is as narrow as one over the root of 10,000 words, against its mode
    found = jax.vmap(TopicModel(TOPICS).infer)(counts)
    np.testing.assert_allclose(found, peer.transform(counts), atol=2e-4)


def test_documents():
    h, counts = jax.jit(lambda key: TopicModel(TOPICS).sample(20_000, key=key))(jax.random.key(0))
    assert float(counts.sum()) == 20_000
    np.testing.assert_allclose(counts / 20_000, h @ TOPICS, atol=0.02)


def test_sentences():
    with pytest.raises(ValueError, match="each row of topics must sum to 1"):
        TopicModel([[0.5, 0.4]])
    with pytest.raises(ValueError, match="at least one word"):
        TopicModel(TOPICS).infer(np.zeros(4))
