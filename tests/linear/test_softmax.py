import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special as special

from corollary.linear import decision_region, log_softmax, meeting_point, one_hot, plurality, softmax, softmax_jacobian

PRINTED = np.array([[2.0, 1.0], [-1.0, 0.0], [1.0, -3.0]])
USED = np.array([[2.0, 1.0], [1.0, 0.0], [1.0, -3.0]])
BIAS = np.array([3.0, 0.0, -1.0])


@pytest.mark.parametrize("size", [2, 10, 1000])
def test_softmax_against_scipy(size):
    z = np.random.default_rng(size).uniform(-700, 700, (20, size))
    np.testing.assert_allclose(
        softmax(z), special.softmax(z, axis=1), rtol=1e-12, atol=1e-307
    )  # subnormals are flushed
    np.testing.assert_allclose(log_softmax(z), special.log_softmax(z, axis=1), rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(softmax(z).sum(1), 1, rtol=1e-12)
    np.testing.assert_allclose(softmax(z + 300.0), softmax(z), rtol=1e-12, atol=1e-307)


def test_softmax_does_not_overflow():
    np.testing.assert_array_equal(softmax(jnp.array([1000.0, 1000.0])), [0.5, 0.5])


def test_jacobian_against_autodiff_and_differences():
    z = jax.random.normal(jax.random.key(0), (4,))
    np.testing.assert_allclose(softmax_jacobian(z), jax.jacobian(softmax)(z), atol=1e-15)
    h = 1e-6
    differences = np.stack([(softmax(z + h * e) - softmax(z - h * e)) / (2 * h) for e in jnp.eye(4)], 1)
    np.testing.assert_allclose(softmax_jacobian(z), differences, atol=1e-9)


def test_plurality_and_one_hot():
    np.testing.assert_array_equal(plurality(jnp.array([[0.2, 0.5, 0.3], [0.4, 0.4, 0.2]])), [1, 0])
    np.testing.assert_array_equal(one_hot(jnp.array([2, 0, 1]), 3), [[0, 0, 1], [1, 0, 0], [0, 1, 0]])


@pytest.mark.parametrize("weight", [PRINTED, USED])
def test_regions_are_the_votes_on_a_grid(weight):
    # An irrational shift keeps the grid off the boundaries.
    axis = np.linspace(-10, 10, 400) + np.sqrt(2) / 100
    points = np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2)
    votes = plurality(softmax(points @ weight.T + BIAS))
    inside = np.stack([decision_region(weight, BIAS, i).contains(points) for i in range(3)], 1)
    np.testing.assert_array_equal(inside, np.arange(3) == np.asarray(votes)[:, None])


def test_the_half_spaces_of_section_3_7():
    region = decision_region(USED, BIAS, 0)
    np.testing.assert_array_equal(region.normals, [[1, 1], [1, 4]])
    np.testing.assert_array_equal(region.offsets, [-3, -4])
    printed = decision_region(PRINTED, BIAS, 0)
    np.testing.assert_array_equal(printed.normals[0], [3, 1])
    np.testing.assert_allclose(meeting_point(USED, BIAS), [-8 / 3, -1 / 3], rtol=1e-14)
