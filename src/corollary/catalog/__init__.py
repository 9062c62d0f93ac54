"""The rows of the five texts as data, and who covers them.

Light on purpose: nothing here imports JAX; who covers what is read from the sources.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
