import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import fisher_exact

from corollary.generative import two_sample
from corollary.generative._exact import more_in_first
from corollary.generative.two_sample import _discrepancy, _gram

KEY = jax.random.key(0)


def test_the_tail_is_fishers():
    for a, b, n, m in ((5, 1, 9, 12), (0, 3, 9, 12), (9, 4, 9, 12), (0, 0, 9, 12), (9, 12, 9, 12), (2, 11, 4, 12)):
        exact = fisher_exact([[a, n - a], [b, m - b]], "greater").pvalue
        np.testing.assert_allclose(more_in_first(jnp.asarray(a), jnp.asarray(b), n, m), exact, rtol=1e-10)


def test_the_discrepancy_by_its_double_sums():
    x, y = jax.random.normal(KEY, (2, 6, 2))
    gram = np.asarray(_gram(jnp.concatenate([x, y])))
    k, l, c = gram[:6, :6], gram[6:, 6:], gram[:6, 6:]
    want = (k.sum() - np.trace(k)) / 30 + (l.sum() - np.trace(l)) / 30 - 2 * c.mean()
    signs = jnp.repeat(jnp.array([1.0, -1.0]), 6)
    np.testing.assert_allclose(_discrepancy(jnp.asarray(gram), signs, 6, 9, KEY)[0], want, rtol=1e-10)


def test_the_level_is_kept_and_a_shift_is_seen():
    def one(key, shift):
        x, y = jax.random.normal(key, (2, 24, 3))
        found = two_sample(x, y + shift, relabellings=39, key=key)
        return found.p_classifier, found.p_mmd, found.p_value

    # one call after the other: two batches of LU decompositions at once can wait for each other's threads for ever
    test = jax.jit(jax.vmap(one, (0, None)))
    classifier, mmd, _ = jax.block_until_ready(test(jax.random.split(KEY, 300), 0.0))
    _, _, shifted = test(jax.random.split(KEY, 300), 2.0)
    # 15 of 300 are expected, 30 are four standard deviations more
    assert int(jnp.sum(classifier <= 0.05)) <= 30
    assert 2 <= int(jnp.sum(mmd <= 0.05)) <= 30
    assert float(jnp.mean(shifted <= 0.06)) > 0.95


def test_scales_of_coordinates_do_not_hide_a_difference():
    x, y = jax.random.normal(KEY, (2, 200, 2))
    scale = jnp.array([1000.0, 1.0])
    found = two_sample(scale * x, scale * (y + jnp.array([0.0, 1.5])), key=KEY)
    assert float(found.p_value) < 0.01
    assert float(found.accuracy) > 0.65


def test_constants_and_sizes():
    found = two_sample(jnp.zeros((10, 2)), jnp.zeros((30, 2)), relabellings=9, key=KEY)
    assert float(found.p_value) == 1.0
    assert float(found.accuracy) == 0.5
    with pytest.raises(ValueError, match="x and y must hold four examples each at least, got 3 and 10"):
        two_sample(jnp.zeros((3, 2)), jnp.zeros((10, 2)), key=KEY)
    with pytest.raises(ValueError, match=r"y must hold examples of the shape of those of x, \(2,\), got \(10, 3\)"):
        two_sample(jnp.zeros((10, 2)), jnp.zeros((10, 3)), key=KEY)
