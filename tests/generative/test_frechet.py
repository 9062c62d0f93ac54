"""The Fréchet distance against SciPy's root of a matrix, closed forms and finite differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import sqrtm

from corollary.generative import frechet_distance

RNG = np.random.default_rng(0)


def reference(x, y):
    a, b = np.cov(x.T), np.cov(y.T)
    return np.sum((x.mean(0) - y.mean(0)) ** 2) + np.trace(a + b - 2 * sqrtm(a @ b).real)


@pytest.mark.parametrize("shapes", [((200, 5), (300, 5)), ((6, 5), (40, 5))])
def test_against_the_root_of_a_matrix(shapes):
    x, y = (RNG.normal(size=shape) @ RNG.normal(size=(5, 5)) + RNG.normal(size=5) for shape in shapes)
    assert float(frechet_distance(x, y)) == pytest.approx(reference(x, y), rel=1e-9)
    assert float(frechet_distance(y, x)) == pytest.approx(reference(x, y), rel=1e-9)


def test_uncorrelated_columns():
    """Columns of ± one number each, in all combinations of signs: the covariances are diagonal."""
    signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * 3)).reshape(3, -1).T
    first, second, shift = np.array([1.0, 2.0, 0.0]), np.array([3.0, 0.5, 1.0]), np.array([0.0, 1.0, -2.0])
    unbiased = 8 / 7
    expected = np.sum(shift**2) + unbiased * np.sum((first - second) ** 2)
    assert float(frechet_distance(signs * first, signs * second + shift)) == pytest.approx(expected, rel=1e-12)


def test_fewer_examples_than_numbers_and_images():
    x, y = RNG.normal(size=(4, 1, 3, 3)), RNG.normal(size=(5, 1, 3, 3))
    # the same through products of examples, of which there are few
    a, b = (z.reshape(len(z), -1) for z in (x, y))
    left, right = ((z - z.mean(0)) / np.sqrt(len(z) - 1) for z in (a, b))
    shared = np.linalg.svd(left @ right.T, compute_uv=False).sum()
    expected = np.sum((a.mean(0) - b.mean(0)) ** 2) + np.sum(left**2) + np.sum(right**2) - 2 * shared
    assert float(frechet_distance(x, y)) == pytest.approx(expected, rel=1e-10)


def test_rounding_is_not_taken_a_root_of():
    """Many features that say nothing: roots of their rounding would add up to some 0.03."""
    x = np.float32(RNG.normal(size=(500, 4)) @ RNG.normal(size=(4, 64)))
    assert frechet_distance(x, x).dtype == np.float32
    assert 0 <= float(frechet_distance(x, x)) < 1e-6 * x.var() * 64
    far = np.float32([[1e30], [2e30]])
    assert float(frechet_distance(np.float32([[1e18], [2e18]]), np.float32([[2e18], [3e18]]))) == pytest.approx(1e36)
    assert float(frechet_distance(far, -far)) == np.inf  # and not NaN


def test_derivative():
    x, y = RNG.normal(size=(20, 3)), RNG.normal(size=(30, 3)) * [1.0, 2.0, 3.0]
    slope = jax.grad(frechet_distance)(jnp.asarray(x), y)
    step = 1e-5 * RNG.normal(size=x.shape)
    difference = frechet_distance(x + step, y) - frechet_distance(x - step, y)
    assert float(difference) == pytest.approx(2 * float(jnp.sum(slope * step)), rel=1e-5)
    assert np.isfinite(jax.grad(frechet_distance)(jnp.ones((3, 2)), jnp.ones((4, 2)))).all()


def test_sentences():
    with pytest.raises(ValueError, match="x and y must hold two examples each at least, got 1 and 4"):
        frechet_distance(np.ones((1, 2)), np.ones((4, 2)))
    with pytest.raises(ValueError, match=r"y must hold examples of the shape of those of x, \(2,\), got \(4, 3\)"):
        frechet_distance(np.ones((4, 2)), np.ones((4, 3)))
    with pytest.raises(ValueError, match="x must be finite, got nan"):
        frechet_distance([[np.nan], [1.0]], [[0.0], [1.0]])
