"""Counting models against counting by hand; losses against sums."""

from collections import Counter
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.language import MarkovChain, NGram, perplexity, sequence_log_probability, sft_loss

TEXT = np.random.default_rng(0).integers(0, 3, 60)


@pytest.fixture(scope="module")
def trigram():
    with jax.enable_x64(True):
        return NGram.fit(TEXT, 3, smoothing=0.5)


def test_frequencies_by_hand(trigram):
    triples, pairs = Counter(zip(TEXT, TEXT[1:], TEXT[2:], strict=False)), Counter(pairwise(TEXT[:-1]))
    for a, b, c in np.ndindex(3, 3, 3):
        expected = (triples[a, b, c] + 0.5) / (pairs[a, b] + 1.5)
        np.testing.assert_allclose(trigram.laws[2][3 * a + b, c], expected, rtol=1e-12)
    np.testing.assert_allclose(trigram.laws[0][0], (np.bincount(TEXT) + 0.5) / 61.5, rtol=1e-12)


def test_sums_of_the_text(trigram):
    steps = [trigram.laws[1][TEXT[0], TEXT[1]]]
    steps += [trigram.laws[2][3 * a + b, c] for a, b, c in zip(TEXT, TEXT[1:], TEXT[2:], strict=False)]
    np.testing.assert_allclose(perplexity(trigram, TEXT), np.exp(-np.mean(np.log(steps))), rtol=1e-12)


def test_unseen_contexts_fall_back_to_shorter_ones():
    found = NGram.fit([0, 1, 0, 1, 2], 2, vocabulary=4)
    np.testing.assert_allclose(found.laws[1], [[0, 1, 0, 0], [0.5, 0, 0.5, 0], *[[0.4, 0.4, 0.2, 0]] * 2])
    assert perplexity(found, [0, 3]) == np.inf
    chain = found.chain()
    assert isinstance(chain, MarkovChain)
    unigram = NGram.fit([0, 1, 0, 1, 2], 1).chain()
    np.testing.assert_allclose(unigram.transition, [[0.4, 0.4, 0.2]] * 3)


def test_fine_tuning_sees_the_answer_only(trigram):
    weight = jnp.asarray(np.random.default_rng(1).normal(size=(3, 3)))

    def network(tokens, logits=0.0):
        return weight[tokens] + logits

    loss = sft_loss(network, [0, 2, 1], [1, 2])
    np.testing.assert_allclose(loss, -sequence_log_probability(network, [0, 2, 1], [1, 2]), rtol=1e-12)
    slope = jax.grad(lambda z: sft_loss(lambda t: network(t, z), [0, 2, 1], [1, 2]))(jnp.zeros((5, 3)))
    assert (np.abs(slope).sum(1) > 0).tolist() == [False, False, True, True, False]


def test_sentences(trigram):
    with pytest.raises(ValueError, match="tokens must hold labels from 0 to 1, got 2"):
        NGram.fit([0, 1, 2], 2, vocabulary=2)
    with pytest.raises(ValueError, match="tokens must have at least as many entries as order"):
        NGram.fit([0, 1], 3)
    with pytest.raises(ValueError, match="order 30 makes"):
        NGram.fit(TEXT, 30)
    with pytest.raises(ValueError, match="order must be 1 or 2 for a chain"):
        trigram.chain()
    with pytest.raises(ValueError, match="tokens must have at least two entries"):
        perplexity(trigram, [0])
    with pytest.raises(ValueError, match="network must give one row of logits for each of 2 tokens"):
        sft_loss(lambda tokens: jnp.zeros((3, 2)), [0], [1])
