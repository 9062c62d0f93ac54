"""What small changes of the input do to a network: attacks, certificates, and networks that withstand."""

from corollary._boundary import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
