"""Problems with known constants, methods, trajectories, and the rates that the theorems promise."""

from corollary._boundary import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
