import equinox as eqx
import jax
import numpy as np
import pytest

from corollary.nets.attention import BERT, PretrainingBERT

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
