from itertools import product

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.language import (
    ConditionalTable,
    LastTokens,
    MarkovChain,
    Recomputed,
    beam_search,
    exhaustive_search,
    greedy_search,
    sample_sequence,
    sequence_log_probability,
    table_beam_search,
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


def plain_beam(width):
    beam = [((), 0, 1.0)]
    for _ in range(N):
        grown = [((*s, t), K * node + 1 + t, v * P[node, t]) for s, node, v in beam for t in range(K)]
        beam = sorted(grown, key=lambda h: -h[2])[:width]
    return beam


@pytest.fixture(scope="module")
def table():
    with jax.enable_x64(True):
        return ConditionalTable(P)


def test_searches_by_brute_force(table):
    everything = brute_force()
    found = exhaustive_search(table, [0], N)
    assert [tuple(t) for t in found.tokens.tolist()] == [t for t, _ in everything]
    np.testing.assert_allclose(np.exp(found.log_probability), [v for _, v in everything], rtol=1e-12)
    for width in (2, 5):
        beam, plain = beam_search(table, [0], N, width), plain_beam(width)
        assert [tuple(t) for t in beam.tokens.tolist()] == [t for t, _, _ in plain]
        np.testing.assert_allclose(np.exp(beam.log_probability), [v for _, _, v in plain], rtol=1e-12)
    greedy = greedy_search(table, [0], N)
    assert tuple(greedy.tokens.tolist()) == plain_beam(1)[0][0]
    np.testing.assert_allclose(np.exp(greedy.log_probability), plain_beam(1)[0][2], rtol=1e-12)
    forced = jax.vmap(lambda t: sequence_log_probability(table, [0], t))(found.tokens)
    np.testing.assert_allclose(forced, found.log_probability, rtol=1e-12)


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


def test_cached_and_recomputed_agree():
    rng = np.random.default_rng(1)
    weight = jnp.asarray(rng.normal(size=(K, K)))

    def logits(tokens):  # the mean of the rows of all tokens so far: causal, and not Markov
        return jnp.cumsum(weight[tokens], 0) / jnp.arange(1, len(tokens) + 1)[:, None]

    class Summed(eqx.Module):
        weight: jax.Array

        def cache(self, length):
            return jnp.zeros(K), jnp.zeros(())

        def step(self, token, cache):
            total, n = cache[0] + self.weight[token], cache[1] + 1
            return total / n, (total, n)

    first, second = (beam_search(m, [2, 0, 1], 5, 3) for m in (logits, Summed(weight)))
    np.testing.assert_array_equal(first.tokens, second.tokens)
    np.testing.assert_allclose(first.log_probability, second.log_probability, rtol=1e-12)


def test_markov_chain_by_viterbi():
    rng = np.random.default_rng(2)
    chain = MarkovChain(rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(4), 4))
    best = np.log(chain.initial)
    for _ in range(4):
        best = np.max(best[:, None] + np.log(chain.transition), 0)
    np.testing.assert_allclose(exhaustive_search(chain, [0], 5).log_probability[0], best.max(), rtol=1e-12)


def test_listing_10_4():
    initial, expansions = {"A": 0.40, "B": 0.35, "C": 0.25}, {"A": {"A1": 0.50, "A2": 0.20}, "B": {"B1": 0.80}}
    (first, p), (second, q) = table_beam_search(initial, expansions, 2, 2)
    assert (first, second) == (["B", "B1"], ["A", "A1"])
    np.testing.assert_allclose((p, q), (0.28, 0.20))
    assert table_beam_search(initial, expansions, 1, 2) == [(["A", "A1"], 0.4 * 0.5)]
    assert len(table_beam_search(initial, expansions, 9, 2)) == 3
    with pytest.raises(ValueError, match="expansions must continue a hypothesis, got none for \\['C'\\]"):
        table_beam_search({"C": 1.0}, expansions, 2, 2)
    with pytest.raises(ValueError, match="initial must hold probabilities"):
        table_beam_search({"C": 1.5}, expansions, 2, 2)


def test_filters():
    p = np.array([0.1, 0.4, 0.1, 0.3, 0.1])
    np.testing.assert_allclose(top_k_filter(p, 3), np.array([0.1, 0.4, 0, 0.3, 0]) / 0.8)
    np.testing.assert_allclose(top_k_filter(p, 1), [0, 1, 0, 0, 0])
    np.testing.assert_allclose(top_k_filter(p, 5), p)
    np.testing.assert_allclose(top_p_filter(p, 0.5), np.array([0, 0.4, 0, 0.3, 0]) / 0.7)
    np.testing.assert_allclose(top_p_filter(p, 0.75), np.array([0.1, 0.4, 0, 0.3, 0]) / 0.8)
    np.testing.assert_allclose(top_p_filter([0.5, 0.25, 0.25], 0.75), [2 / 3, 1 / 3, 0])  # reached, not exceeded
    np.testing.assert_allclose(top_p_filter(p, 0.0), [0, 1, 0, 0, 0])
    np.testing.assert_allclose(top_p_filter(p, 1.0), p)
    np.testing.assert_allclose(top_k_filter(np.stack([p, p[::-1]]), 1), np.eye(5)[[1, 3]])


def test_truncated_samples_have_the_filtered_law():
    p = np.array([0.4, 0.3, 0.2, 0.1])
    chain, n = MarkovChain(p, np.tile(p, (4, 1))), 20_000
    for options, law in [
        ({}, p),
        ({"temperature": 0.5}, p**2 / np.sum(p**2)),
        ({"top_k": 3, "top_p": 0.7}, np.array([4, 3, 0, 0]) / 7),  # 7/9 of the mass of three tokens
    ]:
        drawn = sample_sequence(chain, [0], n, key=jax.random.key(0), **options)
        freq = np.bincount(drawn.tokens, minlength=4) / n
        law = np.asarray(law)
        assert (np.abs(freq - law) <= 5 * np.sqrt(law * (1 - law) / n)).all()  # five standard deviations
        np.testing.assert_allclose(drawn.log_probability, np.log(p)[drawn.tokens].sum(), rtol=1e-9)


def test_last_tokens_forget_the_oldest():
    def logits(tokens):  # a weighted sum over all tokens so far, the places counted from the first
        sums = jnp.cumsum(tokens * jnp.sin(1.0 + jnp.arange(tokens.shape[0])))
        return jnp.stack([jnp.sin(3 * sums), jnp.cos(5 * sums), jnp.sin(7 * sums)], 1)

    found = np.asarray(greedy_search(LastTokens(logits, 4), [2, 1], 9).tokens)
    text = [2, 1]
    for _ in range(9):
        text.append(int(np.argmax(logits(jnp.array(text[-4:]))[-1])))
    np.testing.assert_array_equal(found, text[2:])
    assert len(set(text)) > 1
    whole = greedy_search(Recomputed(logits), [2, 1], 3).tokens  # five tokens go in at most: until then it is the same
    np.testing.assert_array_equal(found[:3], whole)


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
        (lambda: greedy_search(Recomputed(lambda t: jnp.zeros(3)), [0], 2), "logits must give one row per token"),
        (lambda: LastTokens(3, 4), "logits must be a function of tokens, got int"),
        (lambda: LastTokens(jnp.sin, 0), "length must be at least 1"),
    ]:
        with pytest.raises((TypeError, ValueError), match=sentence):
            bad()
