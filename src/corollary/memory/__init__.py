"""Associative memories: Hopfield networks, dense memories, and networks as parallel distributed processing has them."""

from corollary._boundary import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
