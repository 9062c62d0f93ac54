"""All the ways in which hyperplanes can divide given points: counted one by one, without any formula."""

import jax
import numpy as np
import pytest

from corollary.linear import count_dichotomies, in_general_position, labelings, realisable, separability


@pytest.fixture(autouse=True)
def _x64():
    with jax.enable_x64(True):
        yield


def test_count_against_linear_programming():
    x = np.random.default_rng(0).normal(size=(6, 3))
    verdict = [separability(x, y, bias=False).separable for y in np.asarray(labelings(6))]
    np.testing.assert_array_equal(realisable(x), verdict)
    assert int(count_dichotomies(x)) == sum(verdict) == 32
    verdict = [separability(x[:, :2], y).separable for y in np.asarray(labelings(6))]
    np.testing.assert_array_equal(realisable(x[:, :2], bias=True), verdict)


def test_as_many_points_as_dimensions_can_be_labelled_in_every_way():
    assert int(count_dichotomies(np.random.default_rng(5).normal(size=(5, 5)))) == 2**5


def test_count_in_the_plane_by_angles():
    x = np.random.default_rng(1).normal(size=(9, 2))
    # a line through the origin changes its labelling where it passes a point: twice a turn for each
    angles = np.sort(np.mod(np.arctan2(x[:, 1], x[:, 0]) + np.pi / 2, np.pi))
    between = (angles + np.append(angles[1:], angles[0] + np.pi)) / 2
    turns = np.concatenate([between, between + np.pi])
    rows = np.sign(x @ np.stack([np.cos(turns), np.sin(turns)])).T
    assert int(count_dichotomies(x)) == len(np.unique(rows, axis=0)) == 18


def test_points_that_are_not_in_general_position_have_fewer():
    x = np.random.default_rng(2).normal(size=(6, 3))
    assert bool(in_general_position(x))
    x[3], x[4] = x[0] + x[1], x[0] - x[1]
    assert not bool(in_general_position(x))
    assert int(count_dichotomies(x)) == 26


def test_general_position_of_lattice_points():
    assert not bool(in_general_position([[1, 2, 3], [4, 5, 6], [7, 8, 9]]))
    assert bool(in_general_position([[1, 2, 3], [4, 5, 6], [7, 8, 10]]))
    assert not bool(in_general_position([[0, 0], [1, 1], [2, 2]], bias=True))
    assert bool(in_general_position([[0, 0], [1, 1], [2, 3]], bias=True))
    assert not bool(in_general_position([[0.0, 0.0], [1.0, 1.0]]))


def test_labelings_of_the_opposite_sign_are_mirrored():
    np.testing.assert_array_equal(labelings(3), -np.asarray(labelings(3))[::-1])
