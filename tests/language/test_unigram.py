from collections import Counter
from itertools import combinations, pairwise

import jax
import numpy as np

from corollary.language import Unigram

# unigram


TOY = Unigram(("a", "b", "c", "ab", "bc", "abc", "ca"), tuple(np.log([0.2, 0.15, 0.1, 0.2, 0.1, 0.05, 0.2])))


def segmentations(word, model=TOY):
    scores = dict(zip(model.pieces, model.log_p, strict=True))
    for n in range(len(word)):
        for cuts in combinations(range(1, len(word)), n):
            parts = [word[i:j] for i, j in pairwise([0, *cuts, len(word)])]
            if all(p in scores for p in parts):
                yield parts, sum(scores[p] for p in parts)


def named(ids):
    return [TOY.name(i) for i in ids]


def test_viterbi_and_likelihood_by_all_segmentations():
    for word in ("a", "abc", "abcabca", "cabcab", "bbcaa"):
        found = list(segmentations(word))
        assert named(TOY.ids(word)) == max(found, key=lambda s: s[1])[0]
        np.testing.assert_allclose(TOY.log_likelihood(word), np.logaddexp.reduce([s for _, s in found]), rtol=1e-13)


def test_one_round_of_expectation_maximisation_by_all_segmentations():
    corpus = {"abca": 3, "cab": 2, "bcab": 1}
    expected, likelihood = Counter(), 0.0
    for word, count in corpus.items():
        found = list(segmentations(word))
        total = np.logaddexp.reduce([s for _, s in found])
        likelihood += count * total
        for parts, score in found:
            for part in parts:
                expected[part] += count * np.exp(score - total)
    model, before = TOY.step(corpus)
    np.testing.assert_allclose(before, likelihood, rtol=1e-13)
    whole = sum(expected.values())
    np.testing.assert_allclose(np.exp(model.log_p), [expected[p] / whole for p in TOY.pieces], rtol=1e-12)


def test_drawn_segmentations_have_their_probabilities():
    word, count = "abcabc", 20_000
    drawn = Counter(tuple(named(ids)) for ids in TOY.sample(word, count, key=jax.random.key(0)))
    found = list(segmentations(word))
    total = TOY.log_likelihood(word)
    assert set(drawn) <= {tuple(parts) for parts, _ in found}
    for parts, score in found:
        p = np.exp(score - total)
        assert abs(drawn[tuple(parts)] - count * p) < 5 * np.sqrt(count * p * (1 - p))  # five standard deviations
