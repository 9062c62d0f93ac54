"""Networks of graphs: message passing and what it cannot see, attention, and filters in the spectrum."""

from corollary._boundary import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
