r"""How far every example is from another class at least: its margin over how fast margins can change."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from corollary._show import shown
from corollary._types import NetworkLike
from corollary.catalog import implements
from corollary.generalization import Lipschitz, lipschitz, margins
from corollary.network.apart import output_of
from corollary.network.batches import pair
from corollary.network.parts import require_network


class LipschitzCertificate(NamedTuple):
    r"""No input nearer than `radius` to an example is given another class than the label, in the Euclidean norm.

    `margins` are those of the examples; the radius is 0 where they are not positive. `constant` bounds how fast a
    margin changes: $\sqrt2L$ for several outputs, $L$ for one, with the upper end of `lipschitz` for $L$. It is
    infinite, and nothing is certified, where an operation of the network has no rule (`lipschitz.unknown`).
    """

    radius: Float[Array, "n"]
    margins: Float[Array, "n"]
    constant: jax.Array
    lipschitz: Lipschitz

    __repr__ = shown


@implements("T18.11")
def lipschitz_certificate(
    network: NetworkLike, data: PyTree, *, key: PRNGKeyArray, batch_size: int = 128
) -> LipschitzCertificate:
    r"""For every example of `data = (x, y)` a radius within which `network` gives the label, for certain.

    Two outputs differ by a function with the Lipschitz constant $\sqrt2L$, since $\|e_y-e_j\|=\sqrt2$; a margin of
    $m$ therefore lasts for $m/(\sqrt2L)$. For one output, whose sign is the class, for $m/L$, which a linear function
    attains.

    >>> found = lipschitz_certificate(network, (x, jnp.array([0, 1, 1, 0])), key=key)
    >>> found.radius.shape
    (4,)
    """
    require_network(network)
    network, (x, y) = eqx.nn.inference_mode(network), pair("data", data)
    if not all(jnp.issubdtype(a.dtype, jnp.floating) for a in jax.tree.leaves(x)):
        raise TypeError("x must hold floating-point numbers: a radius around whole numbers says nothing.")
    found = lipschitz(network, (x, y), key=key, batch_size=batch_size)
    by = margins(network, (x, y), batch_size=batch_size)
    constant = found.upper * (2.0**0.5 if output_of(network, x).size > 1 else 1.0)
    # a constant network has no other class anywhere
    radius = jnp.where(constant > 0, by / jnp.where(constant > 0, constant, 1), jnp.inf)
    return LipschitzCertificate(jnp.where(by > 0, radius, 0.0), by, constant, found)
