"""Convolutions beside PyTorch's."""

import pytest
from torch.nn import functional as F

from corollary._engine.operators.convolution import convolve, convolve_transposed, fold, unfold


def test_a_convolution_of_an_image_with_groups_and_holes(agrees, draw):
    agrees(
        lambda x, w, b: convolve(x, w, b, (2, 1), ((2, 2), (1, 1)), (1, 2), 2),
        lambda x, w, b: F.conv2d(x, w, b, (2, 1), (2, 1), (1, 2), 2),
        draw(2, 4, 7, 6),
        draw(6, 2, 3, 2),
        draw(6),
    )


def test_one_dimension_without_a_bias(agrees, draw):
    agrees(convolve, F.conv1d, draw(2, 3, 8), draw(5, 3, 4))


@pytest.mark.parametrize("groups", [1, 2])
def test_the_transposed_convolution(agrees, draw, groups):
    agrees(
        lambda x, w, b: convolve_transposed(x, w, b, (2, 3), ((1, 1), (0, 0)), (1, 2), groups, (1, 2)),
        lambda x, w, b: F.conv_transpose2d(x, w, b, (2, 3), (1, 0), (1, 2), groups, (1, 2)),
        draw(2, 4, 4, 3),
        draw(4, 3, 3, 2),
        draw(3 * groups),
    )


def test_padding_of_a_transposed_convolution_may_exceed_its_window(agrees, draw):
    agrees(
        lambda x, w: convolve_transposed(x, w, None, (2,), ((2, 2),)),
        lambda x, w: F.conv_transpose1d(x, w, None, 2, 2),
        draw(1, 2, 6),
        draw(2, 3, 2),
    )


def test_patches_as_columns_and_back(agrees, draw):
    window, strides, padding, dilation = (2, 3), (2, 1), ((1, 1), (0, 0)), (1, 2)
    agrees(
        lambda x: unfold(x, window, strides, padding, dilation),
        lambda x: F.unfold(x, window, dilation, (1, 0), strides),
        draw(2, 3, 5, 7),
    )
    agrees(
        lambda a: fold(a, (5, 7), window, strides, padding, dilation),
        lambda a: F.fold(a, (5, 7), window, dilation, (1, 0), strides),
        draw(2, 18, 9),
    )
