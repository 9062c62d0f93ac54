"""Landscape and curvature: critical points, saddles, spectra, signal propagation, the edge of stability."""

from corollary._boundary import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
