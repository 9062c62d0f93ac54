"""Linear models: neurons and perceptrons, least squares, logistic and softmax regression."""

from corollary._boundary import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
