"""Networks of sets: their symmetries, Deep Sets and PointNet."""

from corollary._boundary import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
