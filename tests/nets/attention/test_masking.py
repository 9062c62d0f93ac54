import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets.attention import BERT, best_span, mask_tokens, masked_loss, sentence_pairs, token_cross_entropy

KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def bert():
    with jax.enable_x64(True):
        return BERT(6, 10, 8, 2, 1, key=KEY)


def test_masked_tokens_are_the_chosen_ones():
    tokens = jnp.concatenate([jnp.full(2000, 3), jnp.array([6, 7])])  # two special tokens at the end
    inputs, targets, chosen = mask_tokens(tokens, 6, 8, key=KEY, rate=0.5, shares=(0.5, 0.5, 0.0))
    np.testing.assert_array_equal(targets, tokens)
    np.testing.assert_array_equal(inputs[~chosen], tokens[~chosen])
    assert not chosen[-2:].any()
    assert set(np.asarray(inputs[chosen]).tolist()) == {0, 1, 2, 3, 4, 5, 8}


def test_masked_loss_counts_the_chosen_alone():
    logits = jax.random.normal(KEY, (4, 3))
    targets, chosen = jnp.array([0, 2, 99, 1]), jnp.array([True, True, False, False])
    wanted = token_cross_entropy(logits[:2], targets[:2]).mean()
    np.testing.assert_allclose(masked_loss(logits, targets, chosen), wanted)
    assert masked_loss(logits, targets, jnp.zeros(4, bool)) == 0


def test_pairs_follow_or_do_not():
    sentences = jnp.arange(400)[:, None] * jnp.ones((1, 2), int)
    first, second, follows = sentence_pairs(sentences, key=KEY)
    np.testing.assert_array_equal(first, sentences[:-1])
    np.testing.assert_array_equal((second == first + 1).all(1), follows == 1)
    assert abs(float(follows.mean()) - 0.5) < 5 * 0.5 / np.sqrt(399)  # five standard deviations
    assert len(np.unique(second[follows == 0])) > 100


def test_refused(bert):
    with pytest.raises(ValueError, match="segments must hold labels from 0 to 1"):
        bert(np.array([1, 2]), np.array([0, 2]))
    with pytest.raises(ValueError, match="first must hold labels from 0 to 5"):
        bert.sentences(np.array([6]))
    with pytest.raises(ValueError, match=r"rate must be in \[0, 1\]"):
        mask_tokens(np.array([1]), 6, 8, key=KEY, rate=1.5)
    with pytest.raises(ValueError, match="shares must be three probabilities"):
        mask_tokens(np.array([1]), 6, 8, key=KEY, shares=(0.8, 0.1, 0.2))
    with pytest.raises(ValueError, match=r"chosen must have shape \(4,\)"):
        masked_loss(jnp.zeros((4, 3)), jnp.zeros(4, int), jnp.ones((), bool))
    with pytest.raises(ValueError, match="sentences must hold at least 3"):
        sentence_pairs(np.zeros((2, 4), int), key=KEY)
    with pytest.raises(ValueError, match=r"ends must have shape \(T,\) with T = 3"):
        best_span(np.zeros(3), np.zeros(4))
