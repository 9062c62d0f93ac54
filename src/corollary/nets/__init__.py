"""Networks as Equinox modules, named as in the texts.

The families of architectures (`nets.convolutional`, `nets.recurrent`, ...) load when they are first touched.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
