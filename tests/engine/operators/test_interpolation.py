"""Resized images beside PyTorch's."""

import jax.numpy as jnp
import numpy as np
import pytest
from torch.nn import functional as F

from corollary._engine.operators.interpolation import coordinates, cubic, linear, nearest

SIZES = [(10, 14), (4, 3), (7, 12)]


def _resized(x, sizes, one, mode, **options):
    for axis, size in enumerate(sizes, start=2):
        x = one(x, axis, coordinates(mode, x.shape[axis], size), **options)
    return x


@pytest.mark.parametrize("sizes", SIZES)
def test_nearest(agrees, draw, sizes):
    x = draw(2, 3, 5, 7)
    agrees(lambda x: _resized(x, sizes, nearest, "asymmetric"), lambda x: F.interpolate(x, sizes), x)
    agrees(
        lambda x: _resized(x, sizes, nearest, "half_pixel", rounding="round_prefer_ceil"),
        lambda x: F.interpolate(x, sizes, mode="nearest-exact"),
        x,
    )


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize(("mode", "corners"), [("half_pixel", False), ("align_corners", True)])
def test_linear_and_cubic(agrees, draw, sizes, mode, corners):
    x = draw(2, 3, 5, 7)
    for one, name in ((linear, "bilinear"), (cubic, "bicubic")):
        agrees(
            lambda x, one=one: _resized(x, sizes, one, mode),
            lambda x, name=name: F.interpolate(x, sizes, mode=name, align_corners=corners),
            x,
        )


def test_a_wider_weight_against_aliases(agrees, draw):
    x = draw(1, 2, 12, 10)

    def ours(x):
        for axis, size in ((2, 5), (3, 4)):
            length = x.shape[axis]
            x = linear(x, axis, coordinates("half_pixel", length, size), stretch=length / size, outside=True)
        return x

    agrees(ours, lambda x: F.interpolate(x, (5, 4), mode="bilinear", antialias=True), x)


def test_a_scale_that_is_not_the_quotient_of_the_sizes():
    x = np.arange(5.0)
    assert np.allclose(linear(x, 0, coordinates("asymmetric", 5, 7, scale=1.5)), [0, 2 / 3, 4 / 3, 2, 8 / 3, 10 / 3, 4])
    symmetric = coordinates("half_pixel_symmetric", 5, 7, scale=1.5)
    assert np.isclose(symmetric[0] + symmetric[-1], 4)  # the middle stays the middle


def test_a_crop():
    at = coordinates("tf_crop_and_resize", 9, 3, roi=(0.25, 0.75))
    assert np.allclose(at, [2, 4, 6])
    assert np.allclose(coordinates("tf_crop_and_resize", 9, 1, roi=(0.25, 0.5)), [3])


def test_whole_factors_are_repetitions(draw):
    x = jnp.asarray(draw(1, 1, 4))
    assert np.array_equal(nearest(x, 2, coordinates("asymmetric", 4, 12)), np.repeat(x, 3, axis=2))


def test_a_mode_that_is_not_known():
    with pytest.raises(ValueError, match="the coordinates 'corners' are not known"):
        coordinates("corners", 3, 4)
