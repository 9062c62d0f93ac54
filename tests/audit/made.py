"""Subjects of functions on batches, `apply(params, x)`, as the tests write their networks."""

from corollary import Network, Subject


def made(apply, params, loss, train, test=None, *, initial=None, init=None, **known) -> Subject:
    """`initial` are the parameters that training started from, `init(key)` draws new ones."""
    network = Network(apply, params, batched=True)
    known["initial"] = None if initial is None else Network(network.apply, initial, batched=True)
    known["init"] = None if init is None else lambda key: Network(network.apply, init(key), batched=True)
    return Subject(network, loss, train, test, **known)
