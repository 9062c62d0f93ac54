"""Long-run laws and losses of chains, against eigenvectors, powers and drawn cycles."""

import jax
import numpy as np
import pytest

from corollary.language import (
    MarkovChain,
    cross_entropy_rate,
    decoder_perplexity,
    excess_entropy,
    long_run_law,
    tempered,
    top_k_filter,
    top_p_filter,
)

P, Q = np.random.default_rng(0).dirichlet(np.ones(4), (2, 5)).reshape(2, 5, 4)


def chain(rows):
    return MarkovChain(rows[0], rows[1:])


def left_eigenvector(transition):
    values, vectors = np.linalg.eig(transition.T)
    found = vectors[:, np.argmax(values.real)].real
    return found / found.sum()


def test_long_run_law_is_the_eigenvector():
    np.testing.assert_allclose(long_run_law(chain(P)), left_eigenvector(P[1:]), rtol=1e-12)


def test_cycles_and_parts():
    turn = np.roll(np.eye(4), 1, axis=1)
    np.testing.assert_allclose(long_run_law(MarkovChain([1.0, 0, 0, 0], turn)), 0.25, rtol=1e-12)
    # a token that leads into one of two traps
    traps = np.array([[0.0, 0.3, 0.7], [0, 1, 0], [0, 0, 1]])
    np.testing.assert_allclose(long_run_law(MarkovChain([0.5, 0.5, 0.0], traps)), [0, 0.65, 0.35], atol=1e-15)
    # parts that are connected by next to nothing are connected
    slow = np.array([[1 - 1e-9, 1e-9], [3e-9, 1 - 3e-9]])
    np.testing.assert_allclose(long_run_law(MarkovChain([1.0, 0.0], slow)), [0.75, 0.25], rtol=1e-6)


def test_losses_by_hand():
    share = left_eigenvector(P[1:])
    paid = -share @ (P[1:] * np.log(Q[1:])).sum(-1)
    least = -share @ (P[1:] * np.log(P[1:])).sum(-1)
    np.testing.assert_allclose(cross_entropy_rate(chain(P), chain(Q)), paid, rtol=1e-12)
    np.testing.assert_allclose(excess_entropy(chain(P), chain(Q)), paid - least, rtol=1e-12)
    hole = MarkovChain([1.0, 0, 0, 0], np.eye(4))
    assert excess_entropy(chain(P), hole) == np.inf
    np.testing.assert_allclose(cross_entropy_rate(hole, chain(Q)), -np.log(Q[1, 0]), rtol=1e-12)
    slope = jax.grad(lambda t: excess_entropy(chain(P), MarkovChain(Q[0], t)))(Q[1:])
    np.testing.assert_allclose(slope, -share[:, None] * P[1:] / Q[1:], rtol=1e-10)


def test_greedy_text_by_following_it():
    rows, token, paid = P[1:], int(np.argmax(P[0])), []
    for _ in range(120):  # 60 tokens to fall into the cycle, whose length divides 60 for four tokens
        paid.append(-np.log(rows[token].max()))
        token = int(np.argmax(rows[token]))
    greedy = decoder_perplexity(chain(P), lambda p: top_k_filter(p, 1))
    np.testing.assert_allclose(greedy, np.exp(np.mean(paid[60:])), rtol=1e-10)


def test_rules_that_change_nothing():
    pure = np.exp(cross_entropy_rate(chain(P), chain(P)))
    for rule in (lambda p: p, lambda p: tempered(p, 1.0), lambda p: top_p_filter(p, 1.0), lambda p: top_k_filter(p, 4)):
        np.testing.assert_allclose(decoder_perplexity(chain(P), rule), pure, rtol=1e-12)


def test_sentences():
    with pytest.raises(TypeError, match="chain must be a MarkovChain, got ndarray"):
        long_run_law(P)
    with pytest.raises(ValueError, match="source and model must have as many tokens, got 4 and 2"):
        excess_entropy(chain(P), MarkovChain([0.5, 0.5], [[0.5, 0.5]] * 2))
    with pytest.raises(ValueError, match=r"rule\(p\) must sum to 1 along its last axis, got a sum of 0.5"):
        decoder_perplexity(chain(P), lambda p: p / 2)
    with pytest.raises(TypeError, match="rule must be a function of laws"):
        decoder_perplexity(chain(P), 3)
    with pytest.raises(ValueError, match="transition must sum to 1"):
        MarkovChain([0.5, 0.5], [[0.5, 0.4], [0.5, 0.5]])
