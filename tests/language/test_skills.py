"""Clusters of skills, piece by piece in NumPy."""

import itertools

import jax
import numpy as np
import pytest
from scipy.stats import chisquare

from corollary.language import SkillCluster, TextCorpus, competence, error_set, recombine

KEY = jax.random.key(0)
RNG = np.random.default_rng(1)
EDGES = RNG.integers(0, 4, (30, 3))
WEIGHTS, ERRORS = RNG.uniform(0.5, 2, 30), RNG.uniform(size=30)


@pytest.fixture
def cluster():  # made in double precision
    return SkillCluster(EDGES, 4, WEIGHTS)


def by_hand(chosen):
    """The mean error, with every piece as often as the tuple is found in its slots, in this order."""
    slots = itertools.permutations(range(3), len(chosen))
    often = sum((EDGES[:, slot] == chosen).all(1).astype(float) for slot in map(list, slots)) * WEIGHTS
    return 1 - often @ ERRORS / often.sum()


def test_competence_on_skills_and_tuples(cluster):
    np.testing.assert_allclose(competence(cluster, ERRORS), [by_hand([s]) for s in range(4)], rtol=1e-12)
    for chosen in ([0, 1], [2, 2], [3, 0, 3], [1, 1]):
        assert float(competence(cluster, ERRORS, chosen)) == pytest.approx(by_hand(chosen), rel=1e-12)
    np.testing.assert_array_equal(cluster.incidence().sum(1), 3)
    assert competence(SkillCluster([[0, 1]], 3), [1.0]).tolist() == [0.0, 0.0, 1.0]
    assert float(competence(SkillCluster([[0, 1]], 3), [1.0], [0, 0])) == 1.0


def test_drawn_skills_follow_their_law():
    law = np.array([0.5, 0.3, 0.2, 0.0])
    drawn = np.bincount(np.asarray(SkillCluster.draw(4000, 4, 3, key=KEY, law=law).edges).ravel(), minlength=4)
    assert drawn[3] == 0
    assert chisquare(drawn[:3], 12_000 * law[:3]).pvalue > 1e-6
    even = SkillCluster.draw(4000, 4, 3, key=KEY)
    assert chisquare(np.bincount(np.asarray(even.edges).ravel())).pvalue > 1e-6
    np.testing.assert_allclose(even.weights.sum(), 1)


def test_corpus(cluster):
    found = TextCorpus([cluster, SkillCluster(EDGES[:5], 4)]).competence((ERRORS, ERRORS[:5]))
    np.testing.assert_allclose(found[0], competence(cluster, ERRORS), rtol=1e-12)
    np.testing.assert_allclose(found[1], competence(SkillCluster(EDGES[:5], 4), ERRORS[:5]), rtol=1e-12)


def test_error_set():
    assert error_set([0.0, 0.5, 0.499, 3.0]).tolist() == [False, True, False, True]


def test_joined_pieces(cluster):
    cluster, losses = recombine(cluster, ERRORS, 2, key=KEY)
    assert cluster.edges.shape == (15, 3)
    assert cluster.skills == 16
    groups = np.asarray(jax.random.permutation(KEY, 30)).reshape(15, 2)
    np.testing.assert_allclose(losses, ERRORS[groups].sum(1), rtol=1e-12)
    np.testing.assert_allclose(cluster.weights, WEIGHTS[groups].sum(1), rtol=1e-12)
    np.testing.assert_array_equal(np.asarray(cluster.edges) // 4, EDGES[groups[:, 0]])
    np.testing.assert_array_equal(np.asarray(cluster.edges) % 4, EDGES[groups[:, 1]])
    assert sorted(groups.ravel()) == list(range(30))


def test_sentences(cluster):
    with pytest.raises(ValueError, match="edges must hold labels from 0 to 2"):
        SkillCluster(EDGES, 3)
    with pytest.raises(ValueError, match="weights must be positive"):
        SkillCluster([[0, 1]], 2, [0.0])
    with pytest.raises(ValueError, match="law must sum to 1"):
        SkillCluster.draw(5, 2, 2, key=KEY, law=[0.5, 0.6])
    with pytest.raises(ValueError, match="share one set of skills, got"):
        TextCorpus([cluster, SkillCluster([[0, 1]], 2)])
    with pytest.raises(ValueError, match="got no cluster"):
        TextCorpus([])
    with pytest.raises(ValueError, match="one array for each of 1 clusters, got 2"):
        TextCorpus([cluster]).competence((ERRORS, ERRORS))
    with pytest.raises(ValueError, match="chosen must have at most the 3 skills"):
        competence(cluster, ERRORS, [0, 1, 2, 3])
    with pytest.raises(ValueError, match=r"errors must be in \[0, 1\]"):
        competence(cluster, 2 * np.ones(30))
    with pytest.raises(ValueError, match="losses must be zero or more"):
        error_set([-1.0])
    with pytest.raises(ValueError, match="size must divide the number of pieces, got 7 and 30"):
        recombine(cluster, ERRORS, 7, key=KEY)
    with pytest.raises(ValueError, match="size 30 makes .* tuples of 4 skills"):
        recombine(cluster, ERRORS, 30, key=KEY)
    with pytest.raises(TypeError, match="cluster must be a SkillCluster, got list"):
        competence([[0, 1]], ERRORS)
