"""Networks of graphs: message passing and what it cannot see, attention, and filters in the spectrum."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
