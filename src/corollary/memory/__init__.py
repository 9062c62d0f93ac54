"""Associative memories: Hopfield networks, dense memories, and networks as parallel distributed processing has them."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
