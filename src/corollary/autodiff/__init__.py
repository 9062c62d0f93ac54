"""Differentiation of programs, written for reading, with its cost counted."""

from corollary._boundary import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
