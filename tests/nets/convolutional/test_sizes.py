"""Counting: sizes of outputs, inputs that an output sees, weights that a layer holds."""

import numpy as np

from corollary.nets import convolutional as cv


def test_counts():
    assert [cv.output_size(4, 3), cv.output_size(9, 3), cv.output_size(9, 3, stride=3)] == [2, 7, 3]
    assert cv.output_size(9, 3, padding=1) == 9
    assert cv.output_size(9, 3, padding=(2, 1), stride=2, dilation=2) == 4
    np.testing.assert_array_equal(cv.coverage(9, 3, stride=3), np.ones(9))
    np.testing.assert_array_equal(cv.coverage(5, 3), [1, 2, 3, 2, 1])
    np.testing.assert_array_equal(cv.coverage(3, 3, padding=1), [2, 3, 2])
    assert cv.receptive_field([]) == 1
    assert cv.receptive_field([(3, 1), (2, 2), (3, 1)]) == 8
    assert cv.convolution_weights(3, 8, (5, 5)) == 8 * 76
    assert cv.convolution_weights(1, 1, 7, bias=False) == 7
    assert cv.dense_weights(1, 1, 3, 10) == 80
    assert cv.dense_weights(2, 3, (3, 3), (5, 6), stride=2, padding=1) == 60 * 27
