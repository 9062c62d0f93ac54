import numpy as np

from corollary.nets.attention import (
    dot_product_attention,
    linear_attention,
    plain_attention,
    shared_attention,
    soft_lookup,
)

RNG = np.random.default_rng(0)
X, CONTEXT = RNG.normal(size=(5, 6)), RNG.normal(size=(7, 4))


def test_plain_forms():
    u, w = RNG.normal(size=(6, 6)), RNG.normal(size=(6, 3))
    exponentials = np.exp(X @ X.T)
    np.testing.assert_allclose(plain_attention(X), exponentials / exponentials.sum(1, keepdims=True) @ X, rtol=1e-10)
    np.testing.assert_allclose(shared_attention(X, np.eye(6)), plain_attention(X), rtol=1e-12)
    np.testing.assert_allclose(shared_attention(X, u), dot_product_attention(X @ u, X @ u, X @ u, scale=1.0))
    np.testing.assert_allclose(linear_attention(X @ u, X, X @ w), (X @ u) @ X.T @ (X @ w), rtol=1e-10)
    # scaled up, the tokens are so far apart in logits that each attends to one alone; scaled down, to all alike
    np.testing.assert_allclose(plain_attention(100 * X)[0], 100 * X[np.argmax(X @ X[0])], rtol=1e-12)
    np.testing.assert_allclose(
        plain_attention(1e-9 * X), np.broadcast_to(1e-9 * X.mean(0), X.shape), rtol=1e-6, atol=1e-20
    )
    np.testing.assert_allclose(soft_lookup(X[0], X, w[:5], 0.0), w[:5].mean(0))
    np.testing.assert_allclose(soft_lookup(X[0], X, w[:5], 1e4), w[np.argmax(X @ X[0])])
