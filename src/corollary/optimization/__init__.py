"""Problems with known constants, methods, trajectories, and the rates that the theorems promise."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
