"""How far attention is spread: against weights that are known, in networks that write it down in different ways."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets.attention import (
    AttentionPooling,
    LanguageModel,
    ViT,
    attention_entropy,
    attention_spread,
    attention_weights,
    dot_product_attention,
)

T, D = 6, 4
KEY = jax.random.key(0)


def tokens(n=5):
    return jax.random.normal(jax.random.key(1), (n, T, D))


def expected(x, **options):
    """Entropy shares, largest weights and differences of logits, by hand."""
    weights = np.asarray(jax.vmap(lambda a: attention_weights(a, a, **options))(x), float)
    keys = (weights > 0).sum(-1)
    shares = np.asarray(attention_entropy(weights)) / np.log(np.maximum(keys, 2))
    positive = np.where(weights > 0, weights, np.nan)
    logits = np.log(np.nanmax(positive, -1) / np.nanmin(positive, -1))
    several = keys > 1
    return shares[several].mean(), weights.max(-1)[several].mean(), logits[several].max()


def softmax_first(x):
    return jax.nn.softmax(x @ x.T / D**0.5) @ x


def denominator_last(x):
    return dot_product_attention(x, x, x)


def by_hand(x):
    logits = x @ x.T / D**0.5
    shares = jnp.exp(logits - logits.max(-1, keepdims=True))
    return (shares / shares.sum(-1, keepdims=True)) @ x


def transposed(x):
    return jnp.einsum("jd,ji->id", x, jax.nn.softmax(x @ x.T / D**0.5, axis=0))


@pytest.mark.parametrize("network", [softmax_first, denominator_last, by_hand, transposed])
def test_against_the_weights(network):
    found = attention_spread(network, tokens())
    np.testing.assert_allclose(np.concatenate(found), expected(tokens()), rtol=1e-5)


def test_keys_that_may_not_be_seen_do_not_count():
    found = attention_spread(lambda x: dot_product_attention(x, x, x, causal=True), tokens())
    np.testing.assert_allclose(np.concatenate(found), expected(tokens(), causal=True), rtol=1e-5)


def test_equal_and_single_keys():
    equal = attention_spread(lambda x: dot_product_attention(0 * x, x, x), tokens())
    np.testing.assert_allclose(np.concatenate(equal), [1, 1 / T, 0], atol=1e-6)
    hard = attention_spread(lambda x: dot_product_attention(1000 * x, 1000 * x, x), tokens())
    assert hard.entropy[0] < 1e-3
    assert hard.largest[0] > 0.999
    assert hard.logits[0] > 80


def test_batches_make_no_difference():
    found, again = (attention_spread(softmax_first, tokens(7), batch_size=b) for b in (7, 3))
    np.testing.assert_allclose(np.concatenate(found), np.concatenate(again), rtol=1e-6)


def test_one_number_for_each_block():
    text = LanguageModel(10, T, 8, 2, 3, key=KEY)
    found = attention_spread(text, jnp.ones((4, T), int) * jnp.arange(4)[:, None])
    assert found.entropy.shape == (3,)
    image = ViT((1, 8, 8), 4, 3, 8, 2, 2, key=KEY)
    assert attention_spread(image, jnp.ones((2, 1, 8, 8))).largest.shape == (2,)


def test_networks_of_equinox_and_of_other_libraries():
    attention = eqx.nn.MultiheadAttention(2, D, key=KEY)
    found = attention_spread(lambda x: attention(x, x, x), tokens())
    q, k = (jax.vmap(part)(tokens().reshape(-1, D)) for part in (attention.query_proj, attention.key_proj))
    q, k = (a.reshape(-1, T, 2, D // 2) for a in (q, k))
    weights = jax.vmap(attention_weights)(q, k)
    np.testing.assert_allclose(found.entropy, (attention_entropy(weights) / np.log(T)).mean(), rtol=1e-5)
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'corollary[torch]'")
    from corollary import Network

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.MultiheadAttention(D, 2, bias=False, batch_first=True)

        def forward(self, x):
            return self.inner(x, x, x, need_weights=False)[0]

    block = Block()
    with torch.no_grad():
        parts = attention.query_proj, attention.key_proj, attention.value_proj
        block.inner.in_proj_weight.copy_(torch.tensor(np.concatenate([np.asarray(p.weight) for p in parts])))
    again = attention_spread(Network.from_torch(block, tokens()[0]), tokens())
    np.testing.assert_allclose(np.concatenate(again), np.concatenate(found), rtol=1e-4)


@pytest.mark.parametrize(
    "network", [lambda x: x @ x.T, lambda x: jax.nn.softmax(x.sum(0)), lambda x: jnp.exp(x).sum(), jnp.tanh]
)
def test_products_and_softmax_alone_are_no_attention(network):
    assert attention_spread(network, tokens()).entropy.size == 0


def test_pooling_by_one_query_counts():
    pooling = AttentionPooling(D, 2, key=KEY)
    assert attention_spread(lambda x: pooling(x), tokens()).entropy.shape == (1,)


def test_one_sentence():
    with pytest.raises(TypeError, match="network must be callable"):
        attention_spread(3, tokens())
    with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
        attention_spread(softmax_first, tokens(), batch_size=0)
