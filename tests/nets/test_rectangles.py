import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets import intersection_network, parameter_count, smooth_rectangle, smooth_staircase, staircase

RNG = np.random.default_rng(0)


def f(x, y):
    return jnp.sin(3 * x) * jnp.cos(2 * y)


def test_intersections_of_any_number_of_half_planes():
    normals, offsets = RNG.normal(size=(4, 3)), 1 + RNG.uniform(size=4)
    x = RNG.normal(size=(400, 3))
    affine = x @ normals.T + offsets
    clear = (np.abs(affine) > 0.2).all(1)
    network = intersection_network(normals, offsets, 0.02)
    values = jax.vmap(network)(x)[:, 0]
    np.testing.assert_allclose(values[clear], (affine > 0).all(1)[clear], atol=1e-8)
    assert parameter_count(network) == 4 * 4 + 5
    assert 0 < (affine > 0).all(1)[clear].mean() < 1


def test_rectangle_is_an_intersection():
    low, high, points = np.array([0.2, -1.0]), np.array([0.7, 0.5]), RNG.normal(size=(100, 2))
    eye = np.eye(2)
    network = intersection_network(np.concatenate([eye, -eye]), np.concatenate([-low, high]), 0.1)
    np.testing.assert_allclose(smooth_rectangle(points, low, high, 0.1), jax.vmap(network)(points)[:, 0], atol=1e-12)


@pytest.mark.parametrize("cells", [1, 3, 8])
def test_staircase_cell_by_cell(cells):
    points = RNG.uniform(size=(200, 2))
    index = np.floor(points * cells)
    centre = (index + 0.5) / cells
    np.testing.assert_allclose(
        staircase(f, cells, points), np.sin(3 * centre[:, 0]) * np.cos(2 * centre[:, 1]), rtol=1e-12
    )
    assert np.isfinite(staircase(f, cells, np.array([[1.0, 1.0], [0.0, 0.0]]))).all()


def test_smooth_staircase_is_the_sum_of_rectangles():
    points, n, eps = RNG.uniform(size=(30, 2)), 3, 0.02
    total = 0.0
    for i in range(n):
        for j in range(n):
            low, high = np.array([i, j]) / n, np.array([i + 1, j + 1]) / n
            total += f(*((low + high) / 2)) * smooth_rectangle(points, low, high, eps)
    np.testing.assert_allclose(smooth_staircase(f, n, points, eps), total, atol=1e-12)


def test_smooth_staircase_tends_to_the_staircase():
    points = RNG.uniform(size=(500, 2))
    clear = (np.abs(points * 4 - np.round(points * 4)) > 0.1).all(1)
    smooth = smooth_staircase(f, 4, points[clear], 0.002)
    np.testing.assert_allclose(smooth, staircase(f, 4, points[clear]), atol=1e-4)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: intersection_network(np.eye(2), np.ones(3), 0.1), "offsets must have shape"),
        (lambda: intersection_network(np.eye(2), np.ones(2), 0.0), "eps must be positive"),
        (lambda: smooth_rectangle(np.ones((3, 3)), [0.0, 0.0], [1.0, 1.0], 0.1), "points must have shape"),
        (lambda: smooth_rectangle(np.ones(2), [0.0, 1.0], [1.0, 1.0], 0.1), "high - low must be positive"),
        (lambda: staircase(f, 0, np.ones(2)), "cells must be at least 1"),
        (lambda: staircase(f, 2, np.ones(3)), "points must have shape"),
        (lambda: smooth_staircase(f, 2, np.ones(2), -1.0), "eps must be positive"),
    ],
)
def test_bad_input(call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call()
