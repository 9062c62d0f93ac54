"""Bounds by margins and norms: the chain that they read off a network, and their arithmetic."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary import Network
from corollary.generalization import margins, norm_margin_bound, spectral_margin_bound
from corollary.generalization._chain import OtherNetwork, chain_of

KEY = jax.random.key(0)
X = np.random.default_rng(0).normal(size=(30, 3))
Y = (X[:, 0] > 0).astype(int)
Z = np.random.default_rng(2).normal(size=(2, 5))


def plain(params, x):
    for w in params[:-1]:
        x = jax.nn.relu(w @ x)
    return params[-1] @ x


def matrices(outputs=2):
    rng = np.random.default_rng(1)
    return [jnp.asarray(rng.normal(size=s)) for s in ((5, 3), (4, 5), (outputs, 4))]


def test_a_chain_computes_what_the_network_does():
    batch_norm = Network(
        lambda p, x: p["v"] @ jnp.maximum((p["w"] @ x.reshape(-1) - p["m"]) * p["s"] / 3.0 + p["b"], 0),
        {"v": jnp.ones((2, 4)), "w": jax.random.normal(KEY, (4, 3)), "m": X[0, 0], "s": jnp.arange(4.0), "b": 0.5},
    )
    chosen = Network(lambda p, x: p[1] @ (lambda z: jnp.where(z <= 0, 0.0, z))(p[0] @ x + 1), [*matrices()[:1], Z])
    for network in (eqx.nn.MLP(3, 2, 6, 2, key=KEY), batch_norm, eqx.nn.Linear(3, 2, key=KEY), chosen):
        chain = chain_of(network, X)
        assert chain.biased
        z = np.concatenate([X, np.ones((30, 1))], 1)
        for a in chain.matrices[:-1]:
            z = np.maximum(z @ a.T, 0)
        np.testing.assert_allclose(z @ chain.matrices[-1].T, jax.vmap(network)(jnp.asarray(X)), rtol=1e-10, atol=1e-12)
    chain = chain_of(Network(plain, matrices()), X)
    assert not chain.biased
    for a, b in zip(chain.matrices, matrices(), strict=True):
        np.testing.assert_allclose(a, b)


@pytest.mark.parametrize(
    ("apply", "word"),
    [
        (lambda w, x: w @ jnp.tanh(w @ x), "tanh"),
        (lambda w, x: w @ x + x, "add"),
        (lambda w, x: jax.nn.relu(w @ x), "the last operation is no affine layer"),
        (lambda w, x: jnp.maximum(w @ x, 1.0), "max"),
        (lambda w, x: w @ jnp.where(w @ x < 0, 0.1, w @ x), "a choice between other values"),
    ],
)
def test_other_networks_are_told_apart(apply, word):
    with pytest.raises(OtherNetwork, match=word):
        spectral_margin_bound(Network(apply, jnp.eye(3)), (X, Y))


def test_the_spectral_bound_by_hand():
    network, n, d = Network(plain, matrices(1)), 30, 3
    delta, k = 0.1, 7
    norms = [np.linalg.norm(a, 2) for a in matrices(1)]
    radius = np.linalg.norm(X, axis=1).max()
    margin = radius * np.prod(norms) / 2**k
    bound = spectral_margin_bound(network, (X, Y), delta, margin=margin).check()
    level, cover = 1 / (3 * d * 2**k), 1 / (6 * d * 2**k)
    nats = 0.0
    for a in matrices(1):
        s = np.linalg.svd(a, compute_uv=False)
        rank = (s >= level * s[0]).sum()
        nats += min(rank * sum(a.shape) * np.log(1 + 4 / cover), a.size * np.log(1 + 2 / cover))
    nats += sum(np.log(min(a.shape)) for a in matrices(1)) + np.log((k + 1) * (k + 2)) + np.log(1 / delta)
    risk = np.mean(np.asarray(margins(network, (X, Y))) <= margin)
    np.testing.assert_allclose(bound.value, risk + np.sqrt(nats / (2 * n)), rtol=1e-10)
    printed = spectral_margin_bound(network, (X, Y), delta, margin=margin, form="printed").check()
    stable = sum((np.linalg.norm(a) / s) ** 2 for a, s in zip(matrices(1), norms, strict=True))
    q = 18 * 5 * d**2 * 4.0**k * stable * np.log(1 + 4 / cover)
    rest = sum(np.log(min(a.shape)) for a in matrices(1)) + np.log((k + 1) * (k + 2) / delta)
    np.testing.assert_allclose(printed.value, risk + np.sqrt((q + rest) / (2 * n)), rtol=1e-10)


def test_the_norm_bound_by_hand():
    network, n, delta, k = Network(plain, matrices(1)), 30, 0.1, 3
    norms = [np.linalg.norm(a) for a in matrices(1)]
    radius = np.linalg.norm(X, axis=1).max()
    margin = radius * np.prod(norms) / 2**k
    bound = norm_margin_bound(network, (X, Y), delta, margin=margin).check()
    risk = np.mean(np.asarray(margins(network, (X, Y))) <= margin)
    root = np.sqrt(np.log((k + 1) * (k + 2) / delta) / (2 * n))
    np.testing.assert_allclose(bound.value, risk + 2 * 2**2 * 2**k / np.sqrt(n) + root, rtol=1e-10)
    wide = radius * max(norms) ** 3 / 2**k
    printed = norm_margin_bound(network, (X, Y), delta, margin=wide, form="printed").check()
    risk = np.mean(np.asarray(margins(network, (X, Y))) <= wide)
    np.testing.assert_allclose(printed.value, risk + 2 * 2**3 * 2**k / np.sqrt(n) + root, rtol=1e-10)


@pytest.mark.parametrize("bound", [spectral_margin_bound, norm_margin_bound])
def test_the_best_margin_is_taken_and_scales_do_not_matter(bound):
    network = Network(plain, matrices())
    best = bound(network, (X, Y)).value
    assert all(best <= bound(network, (X, Y), margin=m).value * (1 + 1e-12) for m in (1e-3, 0.1, 1.0, 10.0))
    first, second, last = matrices()
    turned = Network(plain, [4 * first, second / 8, 2 * last])
    np.testing.assert_allclose(bound(turned, (X, Y)).value, best, rtol=1e-10)
    # inputs and margins in other units
    np.testing.assert_allclose(bound(network, (5 * X, Y)).value, best, rtol=1e-10)


def test_two_outputs_are_one_difference():
    first, second, last = matrices()
    one = Network(plain, [first, second, last[1:] - last[:1]])
    np.testing.assert_allclose(
        norm_margin_bound(Network(plain, [first, second, last]), (X, Y)).value,
        norm_margin_bound(one, (X, Y)).value,
        rtol=1e-10,
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"delta": 1.0}, "delta must be in .0, 1., got 1"),
        ({"margin": 0.0}, "margin must be positive"),
        ({"radius": 0.1}, "radius must be the length of the longest input at least"),
        ({"form": "loose"}, "form must be one of 'sharp', 'printed'"),
    ],
)
def test_bad_input_is_one_sentence(options, sentence):
    for bound in (spectral_margin_bound, norm_margin_bound):
        with pytest.raises(ValueError, match=sentence):
            bound(Network(plain, matrices()), (X, Y), **options)
    with pytest.raises(ValueError, match="y must hold whole numbers as class labels"):
        spectral_margin_bound(Network(plain, matrices()), (X, X[:, 0]))
