"""What every look at a network rests on: the network, its loss, its parameters, its data in batches.

A network is a callable pytree of one example. `Network` makes one of anything that is not an Equinox module already.
"""

from corollary.network.loss import BatchLoss
from corollary.network.losses import LOSSES
from corollary.network.network import Network

__all__ = ["LOSSES", "BatchLoss", "Network"]
