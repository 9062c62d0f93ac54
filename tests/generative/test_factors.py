"""Factorisations against scikit-learn."""

import warnings

import jax
import numpy as np
import pytest
from sklearn.decomposition import PCA, SparseCoder, non_negative_factorization
from sklearn.exceptions import ConvergenceWarning

from corollary.generative import nmf, pca, sparse_code

RNG = np.random.default_rng(10)
X = RNG.uniform(size=(12, 5))
KEY = jax.random.key(0)


def test_principal_components():
    found, peer = pca(X, 2), PCA(2).fit(X)
    np.testing.assert_allclose(np.abs(found.axes @ peer.components_.T), np.eye(2), atol=1e-10)
    np.testing.assert_allclose(found.decode(), peer.inverse_transform(peer.transform(X)), atol=1e-12)
    assert ((np.asarray(found.decode()) - X) ** 2).sum() / 12 == pytest.approx(float(found.variances[2:].sum()))


def test_multiplicative_steps_are_those_of_scikit_learn():
    run = jax.jit(lambda key: (nmf(X, 3, 4, key=key), nmf(X, 3, 7, key=key)))
    early, late = run(KEY)
    start = dict(W=np.array(early.codes), H=np.array(early.factors), init="custom", n_components=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        codes, factors, _ = non_negative_factorization(X, **start, solver="mu", max_iter=3, tol=0)
    np.testing.assert_allclose(late.codes, codes, rtol=1e-10)
    np.testing.assert_allclose(late.factors, factors, rtol=1e-10)
    assert (np.diff(late.losses) < 0).all()


def test_sparse_codes_are_optimal_for_their_dictionary():
    found = jax.jit(lambda key: sparse_code(X, 6, 4000, penalty=0.1, key=key))(KEY)
    assert (np.diff(found.losses) <= 1e-12).all()
    assert (np.linalg.norm(found.factors, axis=1) <= 1 + 1e-12).all()
    peer = SparseCoder(np.asarray(found.factors), transform_algorithm="lasso_cd", transform_alpha=0.1).transform(X)
    value = lambda z: 0.5 * ((X - z @ np.asarray(found.factors)) ** 2).sum() + 0.1 * np.abs(z).sum()  # noqa: E731
    assert float(found.losses[-1]) == pytest.approx(value(np.asarray(found.codes)))
    assert value(np.asarray(found.codes)) == pytest.approx(value(peer), rel=1e-3)


def test_sentences():
    with pytest.raises(ValueError, match="x must be zero or more"):
        nmf(X - 1, 2, 3, key=KEY)
    with pytest.raises(ValueError, match="count must be from 1 to 5"):
        pca(X, 6)
    with pytest.raises(ValueError, match="penalty must be positive"):
        sparse_code(X, 2, 3, penalty=0.0, key=KEY)
