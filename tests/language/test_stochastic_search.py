"""Sequences drawn without replacement: the law of the first two by enumeration."""

import jax
import numpy as np
import pytest

from corollary.language import ConditionalTable, exhaustive_search, sequence_log_probability, stochastic_beam

P = np.random.default_rng(3).dirichlet(np.ones(2), 3)
DRAWS = 20_000


def test_the_first_two_are_drawn_without_replacement():
    table = ConditionalTable(P)
    keys = jax.random.split(jax.random.key(0), DRAWS)
    drawn = jax.jit(jax.vmap(lambda key: stochastic_beam(table, [0], 2, 2, key=key)))(keys)
    numbers = np.asarray(drawn.tokens) @ [2, 1]
    assert (numbers[:, 0] != numbers[:, 1]).all()
    p = np.array([P[0, a] * P[1 + a, b] for a in range(2) for b in range(2)])
    np.testing.assert_allclose(np.exp(drawn.log_probability), p[numbers], rtol=1e-10)
    for first, second in np.ndindex(4, 4):
        expected = 0.0 if first == second else p[first] * p[second] / (1 - p[first])
        found = np.mean((numbers[:, 0] == first) & (numbers[:, 1] == second))
        assert abs(found - expected) < 5 * np.sqrt(expected / DRAWS) + 1e-12


def test_as_wide_as_there_are_sequences():
    table = ConditionalTable(P)
    found = stochastic_beam(table, [0], 2, 9, key=jax.random.key(1))
    everything = exhaustive_search(table, [0], 2)
    assert sorted(found.tokens.tolist()) == sorted(everything.tokens.tolist())
    np.testing.assert_allclose(np.exp(found.log_probability).sum(), 1.0, rtol=1e-12)
    ended = stochastic_beam(table, [0], 2, 3, key=jax.random.key(2), end=1)
    assert sorted(ended.tokens.tolist()) == [[0, 0], [0, 1], [1, 1]]
    forced = jax.vmap(lambda t: sequence_log_probability(table, [0], t, end=1))(ended.tokens)
    np.testing.assert_allclose(ended.log_probability, forced, rtol=1e-12)


def test_sentences():
    with pytest.raises(ValueError, match="width must be at least 1, got 0"):
        stochastic_beam(ConditionalTable(P), [0], 2, 0, key=jax.random.key(0))
