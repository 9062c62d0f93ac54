"""The losses of tasks without labels, computed by hand, and training on them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from corollary.generative import pretrain, pretraining_loss

KEY = jax.random.key(0)
X = np.random.default_rng(5).normal(size=(6, 4))


def view(x, key):
    return x + 0.1 * jax.random.normal(key, x.shape)


def networks(out=4):
    return eqx.nn.Linear(4, 2, key=KEY), eqx.nn.Linear(2, out, key=jax.random.key(1))


def outputs(encoder, head, x):
    return np.stack([np.asarray(head(encoder(row))) for row in x])


def test_losses_by_hand():
    encoder, head = networks()
    found = pretraining_loss(encoder, head, X, "autoencode", key=KEY)
    assert float(found) == pytest.approx(((outputs(encoder, head, X) - X) ** 2).sum(1).mean(), rel=1e-10)
    hidden = np.asarray(jax.random.bernoulli(KEY, 0.3, X.shape))
    error = outputs(encoder, head, np.where(hidden, 0, X)) - X
    found = pretraining_loss(encoder, head, X, "mask", key=KEY, share=0.3)
    assert float(found) == pytest.approx((error[hidden] ** 2).mean(), rel=1e-6)


def test_contrast_by_hand():
    encoder, head = networks(3)
    keys = jax.random.split(KEY, (2, 6))
    rows = [np.asarray(view(x, k)) for part in keys for x, k in zip(jnp.asarray(X), part, strict=True)]
    u = outputs(encoder, head, rows)
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    total = 0.0
    for i in range(12):
        terms = [np.exp(u[i] @ u[j] / 0.7) for j in range(12) if j != i]
        total -= np.log(np.exp(u[i] @ u[(i + 6) % 12] / 0.7) / sum(terms))
    found = pretraining_loss(encoder, head, X, "contrast", key=KEY, view=view, temperature=0.7)
    assert float(found) == pytest.approx(total / 12, rel=1e-6)


@pytest.mark.parametrize("objective", ["autoencode", "mask", "contrast"])
def test_training_lowers_the_loss(objective):
    encoder, head = networks()
    run = pretrain(encoder, head, X, objective, optax.adam(0.02), steps=40, key=KEY, view=view, batch_size=5)
    assert run.losses.shape == (40,)
    assert run.losses[-10:].mean() < run.losses[:10].mean()
    assert run.encoder(X[0]).shape == (2,)


def test_sentences():
    encoder, head = networks()
    with pytest.raises(ValueError, match="objective must be one of 'autoencode', 'mask', 'contrast'"):
        pretraining_loss(encoder, head, X, "rotate", key=KEY)
    with pytest.raises(TypeError, match="view must be a function of one example and a key"):
        pretraining_loss(encoder, head, X, "contrast", key=KEY)
    with pytest.raises(ValueError, match="at least two examples"):
        pretraining_loss(encoder, head, X[:1], "contrast", key=KEY, view=view)
    with pytest.raises(ValueError, match=r"head must give one array of shape \(4,\)"):
        pretraining_loss(*networks(3), X, "mask", key=KEY)
    with pytest.raises(ValueError, match=r"share must be in \(0, 1\)"):
        pretraining_loss(encoder, head, X, "mask", key=KEY, share=1.0)
    with pytest.raises(TypeError, match="encoder must be a network of one example, got int"):
        pretraining_loss(3, head, X, "mask", key=KEY)
    with pytest.raises(ValueError, match="x must have examples along its first axis"):
        pretraining_loss(encoder, head, 1.0, "mask", key=KEY)
