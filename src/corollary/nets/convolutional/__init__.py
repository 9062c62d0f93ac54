"""Convolutions, and networks that are made of them."""

from corollary._boundary import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
