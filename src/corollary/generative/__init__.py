"""Models that learn a distribution, what their likelihood is, and whether a sampler cheats."""

from corollary._boundary import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
