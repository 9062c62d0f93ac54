from itertools import product

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.language import (
    ConditionalTable,
    beam_search,
    exhaustive_search,
    greedy_search,
    sequence_log_probability,
    table_beam_search,
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


def test_listing_10_4():
    initial, expansions = {"A": 0.40, "B": 0.35, "C": 0.25}, {"A": {"A1": 0.50, "A2": 0.20}, "B": {"B1": 0.80}}
    (first, p), (second, q) = table_beam_search(initial, expansions, 2, 2)
    assert (first, second) == (["B", "B1"], ["A", "A1"])
    np.testing.assert_allclose((p, q), (0.28, 0.20))
    assert table_beam_search(initial, expansions, 1, 2) == [(["A", "A1"], 0.4 * 0.5)]
    assert len(table_beam_search(initial, expansions, 9, 2)) == 3
    with pytest.raises(ValueError, match="expansions must continue at least one of \\['C'\\] at step"):
        table_beam_search({"C": 1.0}, expansions, 2, 2)
    with pytest.raises(ValueError, match="initial must hold probabilities"):
        table_beam_search({"C": 1.5}, expansions, 2, 2)
