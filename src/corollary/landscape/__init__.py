"""Landscape and curvature: critical points, saddles, spectra, signal propagation, the edge of stability."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
