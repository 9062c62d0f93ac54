"""Kernels: functions of two points, their Gram matrices and features, and the methods that need no more than that."""

from corollary._boundary import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
