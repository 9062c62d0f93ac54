import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.decomposition import PCA, TruncatedSVD

from corollary.nets import (
    LinearAutoencoder,
    autoencoder_gradients,
    optimal_autoencoder,
    rank_error,
    reconstruction_loss,
    truncated_svd,
)

KEY = jax.random.key(0)
X = np.random.default_rng(0).normal(size=(30, 6)) * np.arange(1, 7)


def test_the_model():
    model = LinearAutoencoder(6, 2, key=KEY)
    c, d = np.asarray(model.encoder), np.asarray(model.decoder)
    np.testing.assert_allclose(model(X[0]), d @ c @ X[0], rtol=1e-12)
    np.testing.assert_allclose(model.decode(model.encode(X[0])), model(X[0]))
    loss = np.linalg.norm(X - X @ c.T @ d.T) ** 2 / 60
    np.testing.assert_allclose(reconstruction_loss(model, X), loss, rtol=1e-12)
    np.testing.assert_allclose(reconstruction_loss(LinearAutoencoder.of(c, d), X), loss, rtol=1e-12)


def test_gradients():
    model = LinearAutoencoder(6, 2, key=KEY)
    slope = jax.grad(lambda m: 0.5 * jnp.sum((X[0] - m(X[0])) ** 2))(model)
    ours = autoencoder_gradients(model, X[0])
    np.testing.assert_allclose(ours.encoder, slope.encoder, rtol=1e-11)
    np.testing.assert_allclose(ours.decoder, slope.decoder, rtol=1e-11)


@pytest.mark.parametrize("rank", [1, 3, 5])
def test_truncated_svd_against_scikit_learn(rank):
    peer = TruncatedSVD(rank, algorithm="arpack", random_state=0)
    expected = peer.inverse_transform(peer.fit_transform(X))
    np.testing.assert_allclose(truncated_svd(X, rank), expected, atol=1e-9)
    np.testing.assert_allclose(rank_error(X, rank), np.linalg.norm(X - expected), rtol=1e-10)


def test_extreme_ranks():
    assert not np.asarray(truncated_svd(X, 0)).any()
    np.testing.assert_allclose(truncated_svd(X, 6), X, atol=1e-12)
    np.testing.assert_allclose(rank_error(X, 0), np.linalg.norm(X), rtol=1e-12)
    assert rank_error(X, 6) == 0


def test_optimum_is_pca_on_centred_data():
    centred = X - X.mean(0)
    pca = PCA(2).fit(centred)
    model = optimal_autoencoder(centred, 2)
    expected = pca.inverse_transform(pca.transform(centred))
    np.testing.assert_allclose(jax.vmap(model)(centred), expected, atol=1e-10)


def test_bad_input():
    with pytest.raises(ValueError, match="decoder must have shape .d, m. with d = 3"):
        LinearAutoencoder.of(np.ones((2, 3)), np.ones((2, 3)))
    with pytest.raises(TypeError, match="autoencoder must be a LinearAutoencoder"):
        autoencoder_gradients(jnp.sin, X[0])
    with pytest.raises(ValueError, match="rank must be from 0 to 6"):
        truncated_svd(X, 7)
    with pytest.raises(ValueError, match="rank must be from 0 to 6"):
        rank_error(X, 7)
    with pytest.raises(ValueError, match="code must be from 1 to 6"):
        optimal_autoencoder(X, 0)
    with pytest.raises(ValueError, match="x must have shape .n, d."):
        reconstruction_loss(LinearAutoencoder(6, 2, key=KEY), X[0])
    with pytest.raises(ValueError, match="x must have shape"):
        LinearAutoencoder(6, 2, key=KEY)(X[0, :3])
