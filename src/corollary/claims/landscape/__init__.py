"""Landscape and curvature: critical points, saddles, spectra, signal propagation, measured."""
