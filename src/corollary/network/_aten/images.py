"""Images made larger and smaller, and read at points."""

from __future__ import annotations

import numpy as np

from corollary._engine.operators import interpolation, sampling
from corollary.network._aten.table import aten


def _resized(x, output_size, scales, along):
    """`x` with each spatial axis replaced by `along(x, axis, length, size, scale)`."""
    space = x.shape[2:]
    scales = tuple(scales or (None,) * len(space))
    for k, length in enumerate(space):
        size = output_size[k] if output_size is not None else int(np.floor(length * scales[k]))
        if size != length or scales[k] not in (None, 1.0):
            x = along(x, k + 2, length, size, scales[k])
    return x


def _nearest(shift):
    def along(x, axis, length, size, scale):
        # in single precision, as PyTorch computes these places, whatever the type of the image
        step = np.float32(length / size if scale is None else 1 / scale)
        at = (np.arange(size, dtype=np.float32) + np.float32(shift)) * step
        return interpolation.nearest(x, axis, at)

    return along


def _smooth(kernel, align_corners, **kwargs):
    def along(x, axis, length, size, scale):
        at = interpolation.coordinates("align_corners" if align_corners else "half_pixel", length, size, scale)
        return kernel(x, axis, at, **kwargs)

    return along


def _without_aliases(kernel, align_corners, **kwargs):
    """The weights are as wide as the pixels of the smaller image, and those beyond the border are left out."""

    def along(x, axis, length, size, scale):
        at = interpolation.coordinates("align_corners" if align_corners else "half_pixel", length, size, scale)
        stretch = max(length / size if scale is None else 1 / scale, 1.0)
        return kernel(x, axis, at, stretch=stretch, outside=True, **kwargs)

    return along


def _enter(name, along, smooth=True):
    """Both overloads of a resizing operator: sizes and scales one by one, or as vectors."""

    def vectors(input, output_size=None, scale_factors=None, align_corners=False):
        return _resized(input, output_size, scale_factors, along(align_corners) if smooth else along)

    def numbers(self, output_size, align_corners=False, scales=None, scales_d=None, scales_h=None, scales_w=None):
        given = [s for s in (scales, scales_d, scales_h, scales_w) if s is not None]
        return _resized(self, output_size, given or None, along(align_corners) if smooth else along)

    aten(f"{name}.vec")(vectors)
    aten(name)(numbers)


for _n in (1, 2, 3):
    _enter(f"upsample_nearest{_n}d", _nearest(0.0), smooth=False)
    _enter(f"_upsample_nearest_exact{_n}d", _nearest(0.5), smooth=False)
for _name in ("linear1d", "bilinear2d", "trilinear3d"):
    _enter(f"upsample_{_name}", lambda corners: _smooth(interpolation.linear, corners))
_enter("upsample_bicubic2d", lambda corners: _smooth(interpolation.cubic, corners))
_enter("_upsample_bilinear2d_aa", lambda corners: _without_aliases(interpolation.linear, corners))
_enter("_upsample_bicubic2d_aa", lambda corners: _without_aliases(interpolation.cubic, corners, a=-0.5))

MODES = ("linear", "nearest", "cubic")
PADDING = ("zeros", "border", "reflection")


@aten("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")
def grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners):
    return sampling.grid_sample(input, grid, MODES[interpolation_mode], PADDING[padding_mode], align_corners)


@aten("affine_grid_generator")
def affine_grid_generator(theta, size, align_corners):
    return sampling.affine_grid(theta, tuple(size[2:]), align_corners)
