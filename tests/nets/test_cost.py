"""Costs against a pass that counts as it goes, and the parameters that a network really has."""

import jax
import numpy as np
import pytest

from corollary.nets import (
    Classifier,
    backward_cost,
    forward_cost,
    memory_cost,
    parameter_count,
    printed_backward_cost,
    printed_memory_cost,
)

SIZES = [tuple(int(n) for n in row) for row in np.random.default_rng(0).integers([1, 1, 1, 2], [6, 9, 9, 9], (20, 4))]


def _counted(depth, width, inputs, classes):
    below = [inputs] + [width] * (depth - 1)
    forward = sum(2 * width * n + 2 * width for n in below) + 2 * classes * width + 2 * classes
    backward = classes + classes * width + 2 * classes * width
    backward += sum(width + width * n for n in below) + sum(2 * width * n for n in below[1:])
    return forward, backward


@pytest.mark.parametrize("sizes", SIZES)
def test_costs_layer_by_layer(sizes):
    forward, backward = _counted(*sizes)
    assert forward_cost(*sizes) == forward
    assert backward_cost(*sizes) == backward
    assert backward_cost(*sizes, batch_size=7) == 7 * backward
    depth, width, inputs, classes = sizes
    assert printed_backward_cost(*sizes) - backward == 2 * width**2 + classes
    model = Classifier(inputs, width, depth, classes, key=jax.random.key(0))
    assert memory_cost(*sizes).parameters == parameter_count(model)
    assert memory_cost(*sizes).parameters - printed_memory_cost(*sizes).parameters == width


def test_the_example_of_the_text():
    example = (5, 500, 1000, 100)
    assert forward_cost(*example) == 3_105_200
    assert backward_cost(*example) == 3_652_600
    assert printed_backward_cost(*example) == 4_152_700
    assert printed_memory_cost(*example, batch_size=1000).total == 2_552_100
    memory = memory_cost(*example, batch_size=1000)
    assert memory == (1_552_600, 1_000_000, 5_000_000)
    assert memory.gigabytes() == pytest.approx(0.0302104)


def test_bad_input():
    with pytest.raises(ValueError, match="depth must be at least 1, got 0"):
        forward_cost(0, 1, 1, 2)
    with pytest.raises(ValueError, match="classes must be at least 2, got 1"):
        backward_cost(1, 1, 1, 1)
    with pytest.raises(TypeError, match="batch_size must be an integer"):
        memory_cost(1, 1, 1, 2, batch_size=1.5)
