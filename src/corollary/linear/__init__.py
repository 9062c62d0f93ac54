"""Linear models: neurons and perceptrons, least squares, logistic and softmax regression."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
