"""Training of wide networks as it goes: networks of two layers, their scalings, and what they tend to as they widen."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
