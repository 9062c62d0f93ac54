"""Whether outputs move with later tokens and with the order: networks for which both are known by construction."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.language import look_ahead, order_effect
from corollary.nets.attention import LanguageModel

N, T, V = 6, 7, 5
KEY = jax.random.key(0)
X = np.random.default_rng(0).integers(0, V, (N, T))
TABLE = np.random.default_rng(1).normal(size=(V, V)).astype(np.float32)


def words(tokens):
    return jnp.asarray(TABLE)[tokens]


def sums(tokens):
    return jnp.cumsum(words(tokens), 0)


def weighed(tokens):
    return jnp.cumsum(words(tokens) * jnp.arange(1, T + 1)[:, None], 0)


def whole_text(tokens):
    return words(tokens) + words(tokens).mean(0)


def test_a_causal_transformer_does_not_look_ahead():
    network = LanguageModel(V, T, 8, 2, 2, key=KEY)
    found = look_ahead(network, X, key=KEY)
    assert found.earlier.shape == found.later.shape == (N,)
    np.testing.assert_array_equal(found.earlier, 0)
    assert float(found.later.min()) > 0
    # another program: the rows of prefixes, with and without what follows
    np.testing.assert_allclose(network(X[0])[:3], network(X[0, :3]), rtol=1e-5, atol=1e-7)


def test_a_network_of_the_whole_text_does():
    assert float(look_ahead(whole_text, X, key=KEY).earlier.min()) > 0
    # a constant of a row is nothing to a softmax
    leak = look_ahead(lambda tokens: words(tokens) + tokens.sum(), X, key=KEY)
    np.testing.assert_allclose(leak.earlier, 0, atol=1e-9)


def test_squares_by_hand():
    """Of two tokens there is one place to cut at, and the rows after it are known."""
    x = np.array([[0, 1], [2, 1]])
    found = look_ahead(whole_text, x, key=KEY, draws=400)
    centred = TABLE - TABLE.mean(1, keepdims=True)
    moves = np.sum((centred[x.ravel()] - centred[1]) ** 2, -1)
    np.testing.assert_allclose(found.earlier, moves.mean() / 4, rtol=0.15)
    np.testing.assert_allclose(found.later, 2.25 * moves.mean(), rtol=0.15)


def test_order():
    bag, line = (order_effect(f, X, key=KEY) for f in (sums, weighed))
    np.testing.assert_allclose(bag.permuted, 0, atol=1e-9)
    assert float(bag.replaced.min()) > 0
    assert float(line.permuted.min()) > 0
    last = order_effect(words, X, key=KEY)
    np.testing.assert_array_equal(last.permuted, 0)
    np.testing.assert_array_equal(last.replaced, 0)


def test_padding_stays_where_it_is():
    """Masked places on both sides: moved with the tokens, a mask would take others out of the sum."""
    known = np.ones((N, T), bool)
    known[:, :2], known[1, 5:] = False, False

    def masked(tokens, beside):
        return jnp.cumsum(words(tokens) * beside["mask"][:, None], 0)

    given = dict(key=KEY, known=known, beside={"mask": known.astype(np.float32)})
    found = order_effect(masked, X, **given)
    np.testing.assert_allclose(found.permuted, 0, atol=1e-9)
    assert float(found.replaced.min()) > 0
    np.testing.assert_array_equal(look_ahead(masked, X, **given).earlier, 0)


def test_in_batches_it_is_the_same():
    one, other = (look_ahead(whole_text, X, key=KEY, batch_size=b).earlier for b in (64, 4))
    np.testing.assert_allclose(one, other, rtol=1e-6)


def test_one_sentence():
    with pytest.raises(ValueError, match=r"x must hold sequences of at least 2 tokens, got shape \(6, 1\)"):
        look_ahead(words, X[:, :1], key=KEY)
    with pytest.raises(ValueError, match=r"sequences of at least 3 tokens"):
        order_effect(words, X[:, :2], key=KEY)
    with pytest.raises(ValueError, match=r"network must give a row for each of 7 tokens, got shape \(5,\)"):
        look_ahead(lambda tokens: words(tokens).mean(0), X, key=KEY)
    with pytest.raises(ValueError, match="known must be an array of booleans"):
        look_ahead(words, X, key=KEY, known=np.ones(3))
    with pytest.raises(TypeError, match="network must be a function of tokens"):
        order_effect(3, X, key=KEY)
