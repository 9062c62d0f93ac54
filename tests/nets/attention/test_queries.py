import jax
import numpy as np

from corollary.nets.attention import AttentionPooling

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
X, CONTEXT = RNG.normal(size=(5, 6)), RNG.normal(size=(7, 4))
PROJECTIONS = ("query", "key", "value", "output")


def test_pooling():
    model = AttentionPooling(6, 2, 3, key=KEY)
    assert model(X).shape == (2, 6)
    np.testing.assert_allclose(model(X[::-1]), model(X), rtol=1e-12)
    np.testing.assert_allclose(model.weights(X).sum(-1), np.ones((3, 2)))
    one = AttentionPooling(6, 2, key=KEY)
    q, k, v, o = (np.asarray(getattr(one.attention, n).weight).T for n in PROJECTIONS)
    logits = np.asarray(one.seeds) @ q @ (X @ k).T / 6**0.5
    expected = np.exp(logits) / np.exp(logits).sum(1, keepdims=True) @ X @ v @ o
    np.testing.assert_allclose(one(X), expected, rtol=1e-10)
