"""Data to run the theory on: real digits and text, graphs, point clouds, and the tables that the books print.

Loaders return NumPy arrays, so that the precision stays the caller's.
"""

from corollary.data import _book, _graphs, _sequences
from corollary.data._book import *  # noqa: F403
from corollary.data._digits import digits
from corollary.data._files import DataError
from corollary.data._graphs import *  # noqa: F403
from corollary.data._idx import read_idx
from corollary.data._mnist import mnist
from corollary.data._sequences import *  # noqa: F403
from corollary.data._shakespeare import shakespeare
from corollary.data._solids import PARTS, SOLIDS, Clouds, point_clouds
from corollary.data._types import Data

__all__ = [
    "PARTS",
    "SOLIDS",
    "Clouds",
    "Data",
    "DataError",
    "digits",
    "mnist",
    "point_clouds",
    "read_idx",
    "shakespeare",
    *_book.__all__,
    *_graphs.__all__,
    *_sequences.__all__,
]
