"""What the theory stands on: norms, calculus, matrices, probability, concentration, and the setting of learning."""

from corollary._boundary import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
