import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets.attention import (
    BERT,
    ClassHead,
    PretrainingBERT,
    SpanHead,
    TokenHead,
    best_span,
    mask_tokens,
    masked_loss,
    sentence_pairs,
    token_cross_entropy,
)

KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def bert():
    with jax.enable_x64(True):
        return BERT(6, 10, 8, 2, 1, key=KEY)


def test_layout_of_one_and_two_sentences(bert):
    one, two = bert.sentences(np.array([1, 2])), bert.sentences(np.array([1, 2]), np.array([5, 4, 3]))
    assert one.tokens.tolist() == [6, 1, 2, 7]
    assert one.segments.tolist() == [0, 0, 0, 0]
    assert two.tokens.tolist() == [6, 1, 2, 7, 5, 4, 3, 7]
    assert two.segments.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]


def test_every_token_sees_both_sides_and_the_segments_count(bert):
    tokens, segments = bert.sentences(np.array([1, 2]), np.array([5]))
    model = PretrainingBERT(bert, key=KEY)

    @eqx.filter_jit
    def run(model, tokens, segments):
        def vectors(x):
            return model.encoder.encoder(x)

        x = jax.vmap(model.encoder.norm)(model.encoder.embedding(tokens))
        return jax.jacobian(vectors)(x), model(tokens, segments), model(tokens)

    jacobian, (words, follows), (without, _) = run(model, tokens, segments)
    assert np.abs(jacobian).max((1, 3)).min() > 1e-6  # no pair of tokens without influence on each other
    assert words.shape == (6, 6)
    assert follows.shape == (2,)
    assert np.abs(words - without).max() > 1e-6


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


def test_best_span_is_the_best_of_all():
    scores = np.random.default_rng(0).normal(size=(50, 2, 7))
    found = jax.jit(jax.vmap(best_span))(scores[:, 0], scores[:, 1])
    for (s, e), i, j, score in zip(scores, *found, strict=True):
        best = max((s[a] + e[b], a, b) for a in range(7) for b in range(a, 7))
        assert (i, j) == best[1:]
        np.testing.assert_allclose(score, best[0])


def test_heads_are_linear_maps_of_tokens():
    x = np.random.default_rng(0).normal(size=(4, 3))
    word, whole, span = TokenHead(3, 5, key=KEY), ClassHead(3, 2, key=KEY), SpanHead(3, key=KEY)
    np.testing.assert_allclose(word(x), x @ word.layer.weight.T + word.layer.bias)
    np.testing.assert_allclose(whole(x), whole.layer.weight @ x[0] + whole.layer.bias)
    np.testing.assert_allclose(span(x), (x @ span.layer.weight.T + span.layer.bias).T)


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
    with pytest.raises(ValueError, match="sentences must be at least 3"):
        sentence_pairs(np.zeros((2, 4), int), key=KEY)
    with pytest.raises(ValueError, match=r"ends must have shape \(T,\) with T = 3"):
        best_span(np.zeros(3), np.zeros(4))
