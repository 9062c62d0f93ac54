"""The audit: a trained network and its data in, what the theory says about them out."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
