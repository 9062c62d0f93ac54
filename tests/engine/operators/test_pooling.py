"""Pooling beside PyTorch's, where maxima are tied too."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch.nn import functional as F

from corollary._engine.operators.pooling import (
    adaptive_average_pool,
    adaptive_max_pool,
    average_pool,
    lp_pool,
    max_pool,
    max_pool_with_indices,
)


@pytest.fixture
def tied():
    """An image of few values, so that most windows have several maxima."""
    return np.random.default_rng(3).integers(0, 3, (2, 3, 9, 8)).astype(float)


@pytest.mark.parametrize(
    ("window", "strides", "pad", "dilation"), [((3, 2), (2, 2), 1, (1, 1)), ((2, 3), (1, 2), 1, (2, 3))]
)
def test_the_first_of_several_maxima_has_the_derivative(agrees, tied, window, strides, pad, dilation):
    padding = ((pad, pad), (pad, pad))
    arguments = (window, strides, pad, dilation)
    agrees(lambda x: max_pool(x, window, strides, padding, dilation), lambda x: F.max_pool2d(x, *arguments), tied)
    agrees(
        lambda x: max_pool_with_indices(x, window, strides, padding, dilation)[0],
        lambda x: F.max_pool2d(x, *arguments),
        tied,
    )
    places = F.max_pool2d(torch.tensor(tied), *arguments, return_indices=True)[1]
    assert np.array_equal(max_pool_with_indices(jnp.asarray(tied), window, strides, padding, dilation)[1], places)


def test_more_padding_at_the_end_is_the_mode_that_rounds_up(agrees, draw):
    x = draw(1, 2, 6, 6)
    agrees(lambda x: max_pool(x, (3, 3), (2, 2), ((0, 1), (0, 1))), lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True), x)
    agrees(
        lambda x: average_pool(x, (3, 3), (2, 2), ((1, 2), (1, 2)), counted=((1, 1), (1, 1))),
        lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
        x,
    )


def test_means_with_and_without_the_padding(agrees, draw):
    x, padding = draw(2, 3, 7, 6), ((1, 1), (1, 1))
    for counted, include in ((None, False), (padding, True)):
        agrees(
            lambda x, counted=counted: average_pool(x, (3, 2), (2, 1), padding, counted=counted),
            lambda x, include=include: F.avg_pool2d(x, (3, 2), (2, 1), 1, count_include_pad=include),
            x,
        )
    agrees(lambda x: average_pool(x, (2, 2), (2, 2), divisor=3), lambda x: F.avg_pool2d(x, 2, divisor_override=3), x)


def test_means_over_windows_with_holes():
    x = np.arange(7.0).reshape(1, 1, 7)
    found = average_pool(x, (2,), (1,), ((1, 1),), (3,))
    assert np.allclose(found, [[[2, 1.5, 2.5, 3.5, 4.5, 4]]])


def test_norms_of_windows(agrees, draw):
    agrees(lambda x: lp_pool(x, 3, (2, 2), (2, 2)), lambda x: F.lp_pool2d(x, 3, 2), np.abs(draw(1, 2, 4, 4)))
    slope = jax.grad(lambda x: lp_pool(x, 2, (2,)).sum())(np.zeros((1, 1, 4)))
    assert np.array_equal(slope, np.zeros((1, 1, 4)))


@pytest.mark.parametrize("sizes", [(3, 2), (4, 3), (1, 1)])
def test_windows_that_adapt_to_the_size_of_the_result(agrees, tied, sizes):
    agrees(lambda x: adaptive_average_pool(x, sizes), lambda x: F.adaptive_avg_pool2d(x, sizes), tied)
    agrees(lambda x: adaptive_max_pool(x, sizes)[0], lambda x: F.adaptive_max_pool2d(x, sizes), tied)
    places = F.adaptive_max_pool2d(torch.tensor(tied), sizes, return_indices=True)[1]
    assert np.array_equal(adaptive_max_pool(jnp.asarray(tied), sizes)[1], places)
