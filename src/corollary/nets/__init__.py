"""Networks as Equinox modules, named as in the texts.

The families of architectures (`nets.convolutional`, `nets.recurrent`, ...) load when they are first touched.
"""

from corollary._boundary import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
