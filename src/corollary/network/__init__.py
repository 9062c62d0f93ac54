"""What every look at a network rests on: the network, its loss, its parameters, its data in batches.

A network is a callable pytree of one example. `Network` makes one of anything that is not an Equinox module already.
"""

from corollary._boundary import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
