"""Data to run the theory on: real digits and text, graphs, point clouds, and the tables that the books print.

Loaders return NumPy arrays, so that the precision stays the caller's.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
