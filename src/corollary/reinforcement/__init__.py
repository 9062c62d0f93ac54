"""Decisions over time: finite decision problems solved exactly, learning of values, and when it is stable."""

from corollary._boundary import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
