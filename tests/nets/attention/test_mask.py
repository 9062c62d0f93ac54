import numpy as np

from corollary.nets.attention import additive_mask, attention_weights, causal_mask, dot_product_attention

RNG = np.random.default_rng(0)
Q, K, V = RNG.normal(size=(4, 3, 8)), RNG.normal(size=(6, 3, 8)), RNG.normal(size=(6, 3, 5))
MASK = RNG.random((4, 6)) < 0.6
MASK[:, 0] = True


def test_causal():
    k, v = K[:4], V[:4]
    np.testing.assert_array_equal(
        dot_product_attention(Q, k, v, causal=True), dot_product_attention(Q, k, v, causal_mask(4))
    )
    last = MASK[:, :4]
    np.testing.assert_array_equal(
        attention_weights(Q, k, last, causal=True), attention_weights(Q, k, last & (np.tri(4) > 0))
    )
    np.testing.assert_array_equal(causal_mask(2, 5), [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]])
    np.testing.assert_array_equal(additive_mask(causal_mask(2)), [[0, -np.inf], [0, 0]])
