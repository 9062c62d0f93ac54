"""Word vectors: scikit-learn's truncated SVD, counts in a Python loop, and the loss of skip-grams term by term."""

from collections import Counter

import jax
import numpy as np
import pytest
from scipy.special import expit
from sklearn.decomposition import TruncatedSVD

from corollary.language import SkipGram, cooccurrence, lsi, shifted_pmi
from corollary.nets import truncated_svd

KEY = jax.random.key(0)
RNG = np.random.default_rng(3)
COUNTS = RNG.poisson(4.0, (7, 5)).astype(float)
SQUARE = RNG.uniform(1, 9, (4, 4))


def test_lsi():
    found, peer = lsi(COUNTS, 2), TruncatedSVD(2, algorithm="arpack").fit(COUNTS)
    np.testing.assert_allclose(found.values, peer.singular_values_, rtol=1e-10)
    np.testing.assert_allclose(np.abs(found.words), np.abs(peer.transform(COUNTS)), atol=1e-9)
    np.testing.assert_allclose(found.words @ found.documents.T, truncated_svd(COUNTS, 2), atol=1e-12)


def test_counts_of_neighbours():
    tokens = RNG.integers(0, 4, 30)
    seen = Counter((tokens[i], tokens[j]) for i in range(30) for j in range(30) if i != j and abs(i - j) <= 3)
    found = np.asarray(cooccurrence(tokens, 4, 3))
    assert all(found[a, b] == seen[a, b] for a in range(4) for b in range(4))


def test_mutual_information():
    p = SQUARE / SQUARE.sum()
    wanted = np.log(p / np.outer(p.sum(1), p.sum(0))) - np.log(5)
    np.testing.assert_allclose(shifted_pmi(SQUARE, 5.0), wanted, rtol=1e-12)
    assert shifted_pmi(np.eye(2))[0, 1] == -np.inf


def test_loss_term_by_term():
    model = SkipGram(4, 3, key=KEY)
    products = np.asarray(model.words) @ np.asarray(model.contexts).T
    chance = SQUARE.sum(0) / SQUARE.sum()
    expected = 0.0
    for w in range(4):
        for c in range(4):
            apart = sum(chance[d] * np.log(expit(-products[w, d])) for d in range(4))
            expected -= SQUARE[w, c] / SQUARE.sum() * (np.log(expit(products[w, c])) + 2 * apart)
    assert float(model.loss(SQUARE, 2.0)) == pytest.approx(expected, rel=1e-12)
    pairs, noise = np.array([[0, 1], [2, 3]]), np.array([[3, 3], [0, 2]])
    by_hand = -np.log(expit(products[pairs[:, 0], pairs[:, 1]])).sum()
    by_hand -= np.log(expit(-products[pairs[:, :1], noise])).sum()
    assert float(model.sampled_loss(pairs, noise)) == pytest.approx(by_hand / 2, rel=1e-12)


def test_training_ends_at_the_mutual_information():
    found = SkipGram.fit(SQUARE, 4, key=KEY, negatives=2.0, steps=200)
    np.testing.assert_allclose(found.products(), shifted_pmi(SQUARE, 2.0), atol=1e-6)


def test_sentences():
    with pytest.raises(ValueError, match="rank must be from 1 to 5"):
        lsi(COUNTS, 6)
    with pytest.raises(ValueError, match="window must be below the number of tokens, got 3 and 3"):
        cooccurrence([0, 1, 0], 2, 3)
    with pytest.raises(ValueError, match="counts must not all be zero"):
        shifted_pmi(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="counts must be zero or more"):
        shifted_pmi(-SQUARE)
    with pytest.raises(ValueError, match="counts must be square"):
        SkipGram.fit(COUNTS, 2, key=KEY)
    with pytest.raises(ValueError, match=r"counts must have the shape \(4, 4\)"):
        SkipGram(4, 2, key=KEY).loss(np.ones((3, 3)))
    with pytest.raises(ValueError, match="noise must hold labels from 0 to 3"):
        SkipGram(4, 2, key=KEY).sampled_loss([[0, 1]], [[4]])
