"""What the theory stands on: norms, calculus, matrices, probability, concentration, and the setting of learning."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
