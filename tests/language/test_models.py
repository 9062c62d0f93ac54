import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.language import LastTokens, MarkovChain, Recomputed, exhaustive_search, greedy_search, sample_sequence


def test_markov_chain_by_viterbi():
    rng = np.random.default_rng(2)
    chain = MarkovChain(rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(4), 4))
    best = np.log(chain.initial)
    for _ in range(4):
        best = np.max(best[:, None] + np.log(chain.transition), 0)
    np.testing.assert_allclose(exhaustive_search(chain, [0], 5).log_probability[0], best.max(), rtol=1e-12)


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
    whole = greedy_search(Recomputed(logits), [2, 1], 3).tokens  # four tokens are seen: nothing is forgotten yet
    np.testing.assert_array_equal(found[:3], whole)
    with pytest.raises(TypeError, match="logits must be a function of tokens, got int"):
        LastTokens(3, 4)
    with pytest.raises(ValueError, match="length must be at least 1"):
        LastTokens(jnp.sin, 0)
