"""Networks with a state that is carried through time."""

from corollary._boundary import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
