"""Images read at computed points, beside PyTorch."""

import numpy as np
import pytest
from torch.nn import functional as F

from corollary._engine.operators.sampling import affine_grid, grid_sample, sample

THEIRS = {"nearest": "nearest", "linear": "bilinear", "cubic": "bicubic"}


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", THEIRS)
def test_points_inside_and_outside(agrees, draw, mode, padding, corners):
    agrees(
        lambda x, grid: grid_sample(x, grid, mode, padding, corners),
        lambda x, grid: F.grid_sample(x, grid, THEIRS[mode], padding, corners),
        draw(2, 3, 5, 4),
        draw(2, 3, 6, 2),
    )


def test_points_of_a_volume(agrees, draw):
    agrees(
        grid_sample,
        lambda x, grid: F.grid_sample(x, grid, align_corners=False),
        draw(1, 2, 3, 4, 5),
        draw(1, 2, 2, 2, 3),
    )


@pytest.mark.parametrize("corners", [False, True])
def test_grids_of_affine_maps(agrees, draw, corners):
    for space in ((4, 5), (2, 3, 4)):
        n = len(space)
        agrees(
            lambda theta, space=space: affine_grid(theta, space, corners),
            lambda theta, space=space: F.affine_grid(theta, (2, 1, *space), corners),
            draw(2, n, n + 1),
        )


def test_pixel_coordinates(draw):
    x = draw(1, 2, 4, 4).astype(np.float32)
    found = sample(x, (np.array([[1.0, 0.5, 9.0]]), np.array([[2.0, 2.0, 0.0]])))
    np.testing.assert_allclose(found[0, :, 0], x[0, :, 1, 2], rtol=1e-6)
    np.testing.assert_allclose(found[0, :, 1], (x[0, :, 0, 2] + x[0, :, 1, 2]) / 2, rtol=1e-5)
    assert np.array_equal(found[0, :, 2], [0, 0])
