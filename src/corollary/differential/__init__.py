"""Networks as the right-hand sides of ordinary and stochastic differential equations, and gradients through time."""

from corollary._boundary import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
