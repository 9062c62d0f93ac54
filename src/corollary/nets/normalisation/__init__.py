"""Normalised layers: over a batch, and over the units of a layer."""

from corollary._boundary import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
