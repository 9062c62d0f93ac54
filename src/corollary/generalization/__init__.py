"""What training data say about new data: bounds on the error of trained networks."""

from corollary._boundary import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
