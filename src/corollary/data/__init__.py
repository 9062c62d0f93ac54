"""Data to run the theory on: real digits and text, graphs, point clouds, and the tables that the books print.

Loaders return NumPy arrays, so that the precision stays the caller's.
"""

from corollary._boundary import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
