"""Data to run the theory on: real digits and text, and the tables that the books print.

Loaders return NumPy arrays, so that the precision stays the caller's.
"""

from corollary.data import _book
from corollary.data._book import *  # noqa: F403
from corollary.data._digits import digits
from corollary.data._files import DataError
from corollary.data._idx import read_idx
from corollary.data._mnist import mnist
from corollary.data._shakespeare import shakespeare
from corollary.data._types import Data

__all__ = ["Data", "DataError", "digits", "mnist", "read_idx", "shakespeare", *_book.__all__]
