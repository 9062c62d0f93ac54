"""Small handwritten digits that come with scikit-learn: no file, no network."""

from corollary.data._types import Data


def digits() -> Data:
    """1,797 digits of 8 by 8 pixels: `x` of shape (1797, 64) in [0, 1], `y` digits 0 to 9.

    >>> digits().x.shape
    (1797, 64)
    """
    from sklearn.datasets import (
        load_digits,
    )  # late: scikit-learn takes longer to import than all of corollary

    x, y = load_digits(return_X_y=True)
    return Data(x / 16.0, y.astype(int))  # the pixels are counts from 0 to 16
