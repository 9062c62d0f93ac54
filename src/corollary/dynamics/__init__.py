"""Training of wide networks as it goes: networks of two layers, their scalings, and what they tend to as they widen."""

from corollary._boundary import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
