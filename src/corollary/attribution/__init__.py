"""Who is to blame for a prediction: features and training points, with errors that are known."""

from corollary._boundary import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
