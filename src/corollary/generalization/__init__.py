"""What training data say about new data: bounds on the error of trained networks."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
