import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import comb, stirling2

from corollary.generative import birthday_test, duplicate_probability
from corollary.generative.birthday import _at_least, _tails

KEY = jax.random.key(0)


def atoms(count, dim=3, noise=0.0):
    points = jax.random.normal(jax.random.key(count), (count, dim))

    def sample(size, *, key):
        at, z = jax.random.split(key)
        return points[jax.random.randint(at, (size,), 0, count)] + noise * jax.random.normal(z, (size, dim))

    return sample


def test_duplicates_by_brute_force():
    for support, size in ((3, 2), (4, 3), (2, 3)):
        every = list(itertools.product(range(support), repeat=size))
        share = np.mean([len(set(draw)) < size for draw in every])
        np.testing.assert_allclose(duplicate_probability(float(support), size), share, rtol=1e-12)
    np.testing.assert_allclose(duplicate_probability([365.0, 10.0], 23), [0.5072972, 1.0], atol=1e-7)


def test_the_law_of_different_ones_is_that_of_occupied_cells():
    support, size = 6, 9
    counts = np.arange(1, 7)
    law = [stirling2(size, d) * comb(support, d) * float(np.prod(np.arange(1, d + 1))) / support**size for d in counts]
    for d in counts:
        below, above = _tails(float(support), d, size)
        np.testing.assert_allclose(below, np.sum(law[:d]), rtol=1e-12)
        np.testing.assert_allclose(above, np.sum(law[d - 1 :]), rtol=1e-12)


def test_a_binomial_tail():
    from scipy.stats import binom

    found = [_at_least(jnp.asarray(k, float), jnp.asarray(20.0), 0.25) for k in (0, 1, 7, 20)]
    np.testing.assert_allclose(found, [binom.sf(k - 1, 20, 0.25) for k in (0, 1, 7, 20)], rtol=1e-9)


@pytest.mark.parametrize("noise", [0.0, 1e-5])
def test_atoms_are_found_with_and_without_noise(noise):
    found = birthday_test(atoms(50, noise=noise), 200, key=KEY)
    assert 45 < float(found.support) < 56
    assert float(found.interval[0]) <= float(found.support) <= float(found.interval[1])
    assert (float(found.tolerance) > 0) == (noise > 0)
    assert found.closest.shape == (20, 2, 3)
    np.testing.assert_allclose(found.distances, jnp.linalg.norm(found.closest[:, 0] - found.closest[:, 1], axis=1))


@pytest.mark.parametrize("dim", [1, 2, 20])
def test_a_density_does_not_repeat_itself(dim):
    found = birthday_test(lambda count, *, key: jax.random.normal(key, (count, dim)), 200, key=KEY)
    assert int(found.distinct) == 200
    assert float(found.support) == np.inf
    assert float(found.interval[0]) == pytest.approx(200**2 / 2 / np.log(40), rel=0.02)


def test_an_untrained_generator_of_constants_has_support_1():
    found = birthday_test(lambda count, *, key: jnp.ones((count, 2, 2)), 50, key=KEY)
    assert int(found.distinct) == 1
    assert float(found.support) == 1
    assert float(found.interval[0]) == 1


def test_a_tolerance_of_ones_own():
    line = lambda count, *, key: jnp.arange(count)[:, None] / 10.0  # noqa: E731
    assert int(birthday_test(line, 10, key=KEY).distinct) == 10
    assert int(birthday_test(line, 10, tolerance=0.15, key=KEY).distinct) == 1


def test_bad_arguments():
    with pytest.raises(TypeError, match=r"sample must be a function sample\(count, key=key\), got int"):
        birthday_test(3, 10, key=KEY)
    with pytest.raises(TypeError, match=r"sample\(count, key=key\) failed: .* unexpected keyword argument 'key'"):
        birthday_test(lambda count: jnp.ones((count, 2)), 10, key=KEY)
    with pytest.raises(ValueError, match=r"must return count = 10 examples, .* got shape \(3, 2\)"):
        birthday_test(lambda count, *, key: jnp.ones((3, 2)), 10, key=KEY)
    with pytest.raises(ValueError, match="what sample returns must be finite"):
        birthday_test(lambda count, *, key: jnp.full((count, 2), jnp.nan), 10, key=KEY)
    with pytest.raises(ValueError, match="size must be at least 2, got 1"):
        birthday_test(atoms(5), 1, key=KEY)
    with pytest.raises(ValueError, match="tolerance must be zero or more"):
        birthday_test(atoms(5), 10, tolerance=-1.0, key=KEY)
    with pytest.raises(ValueError, match="support must be at least 1"):
        duplicate_probability(0.5, 3)
