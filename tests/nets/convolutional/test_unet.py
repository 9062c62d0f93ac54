"""The U-Net: shapes, classes, precision, and group normalisation against plain NumPy."""

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets.convolutional import UNet
from corollary.nets.convolutional.unet import GroupNorm

KEY = jax.random.key(0)
X = np.random.default_rng(0).normal(size=(1, 8, 8))


@cache
def network(**options):
    """Nothing is zero, as it is before training."""
    built = UNet(1, (8, 16), key=KEY, classes=3, outputs=2, groups=4, **options)
    rng = np.random.default_rng(1)
    return jax.tree.map(lambda a: a + 0.1 * rng.normal(size=a.shape), built)


LEVELS, LABELS = np.array([0.3, 0.3, 0.3, 0.8, 1.0, 0.0]), np.array([0, 1, -1, 0, 0, 0])


@eqx.filter_jit
def outputs(network, x, levels, labels):
    return jax.vmap(lambda level, label: network((x, level, label)))(levels, labels)


def test_group_norm():
    norm = eqx.tree_at(lambda n: (n.scale, n.shift), GroupNorm(6, 2), (jnp.arange(1.0, 7.0), jnp.arange(6.0)))
    x = 3 + 2 * np.random.default_rng(1).normal(size=(4, 5, 6))
    groups = x.reshape(20, 2, 3)
    mean, var = groups.mean((0, 2), keepdims=True), groups.var((0, 2), keepdims=True)
    expected = ((groups - mean) / np.sqrt(var + 1e-5)).reshape(x.shape) * np.arange(1, 7) + np.arange(6)
    np.testing.assert_allclose(norm(jnp.asarray(x)), expected, rtol=1e-9)


def test_what_it_is_given_counts():
    found = outputs(network(), X, LEVELS, LABELS)
    assert found.shape == (6, 2, 8, 8)
    assert np.isfinite(found).all()
    for other in found[1:4]:
        assert np.abs(other - found[0]).max() > 1e-3
    np.testing.assert_allclose(network()._embedded(0.3), network()._embedded(0.3, -1))  # nothing and -1 are the same


def test_it_sees_the_whole_image():
    other = X.copy()
    other[0, 7, 7] += 1.0
    before, after = (outputs(network(), x, LEVELS, LABELS)[0] for x in (X, other))
    assert (np.abs(after - before)[:, 0, 0] > 1e-6).all()


def test_sixteen_bits():
    wide, low = (outputs(n, X, LEVELS, LABELS) for n in (network(), network(dtype=jnp.bfloat16)))
    assert low.dtype == wide.dtype
    assert 0 < np.abs(low - wide).max() < 0.1 * np.abs(wide).max()


def test_zero_before_training():
    last = UNet(1, (8,), key=KEY).last
    assert last.shape == (3, 3, 8, 1)
    assert not last.any()


def test_sentences():
    with pytest.raises(ValueError, match="widths must be multiples of groups=8"):
        UNet(1, (8, 12), key=KEY)
    with pytest.raises(ValueError, match="x must have rows and columns that are multiples of 2"):
        network()((np.zeros((1, 7, 8)), 0.5))
