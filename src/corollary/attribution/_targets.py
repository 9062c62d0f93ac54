"""Classes that a network has no output for end in one sentence, before anything is computed."""

import equinox as eqx

from corollary.network.apart import output_of
from corollary.network.losses import cross_entropy, require_targets


def require_labels(network, loss, data) -> None:
    """One sentence for labels in `data = (x, y)` that `network` has no output for, where `loss` needs one."""
    if loss is cross_entropy:
        require_targets(loss, output_of(eqx.nn.inference_mode(network), data[0]), data[1])
