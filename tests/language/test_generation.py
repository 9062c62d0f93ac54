from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.language import (
    ConditionalTable,
    MarkovChain,
    Recomputed,
    beam_search,
    exhaustive_search,
    greedy_search,
    sample_sequence,
    sequence_log_probability,
    top_k_filter,
    top_p_filter,
)

K, N = 3, 3
P = np.random.default_rng(0).dirichlet(np.ones(K), (K**N - 1) // (K - 1))


def brute_force(p=P, end=None):
    """All sequences with their probabilities, best first: one table of conditionals after the other."""
    out = {}
    for tokens in product(range(K), repeat=N):
        node, value, over = 0, 1.0, False
        for t in tokens:
            value *= (t == end) if over else p[node, t]
            over |= t == end
            node = K * node + 1 + t
        out[tokens] = value
    return sorted(out.items(), key=lambda item: -item[1])


@pytest.fixture(scope="module")
def table():
    with jax.enable_x64(True):
        return ConditionalTable(P)


def test_sequences_that_end(table):
    everything = [(t, v) for t, v in brute_force(end=1) if v > 0]
    found = exhaustive_search(table, [0], N, end=1)
    assert [tuple(t) for t in found.tokens[: len(everything)].tolist()] == [t for t, _ in everything]
    np.testing.assert_allclose(np.exp(found.log_probability).sum(), 1.0, rtol=1e-12)
    drawn = sample_sequence(table, [0], N, key=jax.random.key(3), end=1)
    value = dict(everything)[tuple(drawn.tokens.tolist())]
    np.testing.assert_allclose(np.exp(drawn.log_probability), value, rtol=1e-12)
    np.testing.assert_allclose(
        sequence_log_probability(table, [0], drawn.tokens, end=1), drawn.log_probability, rtol=1e-12
    )
    greedy = greedy_search(table, [0], N, end=1)
    np.testing.assert_allclose(np.exp(greedy.log_probability), dict(everything)[tuple(greedy.tokens.tolist())])


def test_messages(table):
    for bad, sentence in [
        (lambda: greedy_search(3, [0], 2), "model must have cache and step, or be a function of tokens, got int"),
        (lambda: greedy_search(table, [], 2), "prompt must not be empty"),
        (lambda: greedy_search(table, [0], 0), "length must be at least 1"),
        (lambda: greedy_search(table, [0], N + 1), "length must be from 1 to 3, got 4"),
        (lambda: beam_search(table, [0], 2, 0), "width must be at least 1"),
        (lambda: greedy_search(table, [0], 2, end=-1), "end must be at least 0"),
        (lambda: exhaustive_search(table, [0], 30), "length 30 makes 205,891,132,094,649 sequences"),
        (lambda: sample_sequence(table, [0], 2, key=jax.random.key(0), temperature=0.0), "temperature must be pos"),
        (lambda: sample_sequence(table, [0], 2, key=jax.random.key(0), top_k=0), "top_k must be at least 1"),
        (lambda: sample_sequence(table, [0], 2, key=jax.random.key(0), top_p=1.5), "top_p must be in"),
        (lambda: top_k_filter([0.5, 0.5], 3), "k must be from 1 to 2"),
        (lambda: top_p_filter([0.5, 0.4], 0.5), "p must sum to 1 along its last axis, got a sum of 0.9"),
        (lambda: top_p_filter([0.5, 0.5], -0.1), "mass must be in"),
        (lambda: ConditionalTable(P[:5]), "p must have 1 \\+ k"),
        (lambda: MarkovChain([0.5, 0.5], np.eye(3)), "transition must have shape"),
        (lambda: greedy_search(Recomputed(lambda t: jnp.zeros(3)), [0], 2), "logits must have one row for each of the"),
    ]:
        with pytest.raises((TypeError, ValueError), match=sentence):
            bad()
