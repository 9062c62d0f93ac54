"""Networks of graphs must not depend on the names of the vertices."""

import jax
import jax.numpy as jnp

from corollary.claims._drawn import drawn
from corollary.data import erdos_renyi
from corollary.evidence import Size, claim, control, equal
from corollary.nets import MLP, random_permutations, tanh
from corollary.nets.graphs import (
    GATLayer,
    GCNClassifier,
    MessagePassing,
    SpectralLayer,
)


@claim(rows=("E07.10", "E07.11", "E07.14", "E07.19", "E07.29"))
def renamed_vertices(key, *, nodes: Size = 12, features: Size = 3, orders: Size = 10):
    r"""Message passing, GCN, GAT and the spectral layer are equivariant, and their sums over vertices invariant.

    $f$ is invariant if $f(PX,PAP^\top)=f(X,A)$ and equivariant if $f(PX,PAP^\top)=Pf(X,A)$. Every layer
    $x_m'=\phi(x_m,\bigoplus_{n\in N(m)}\psi(x_n))$ with a sum, mean or maximum for $\bigoplus$ is equivariant, and so
    is every polynomial of the Laplacian. A network of the entries of $A$ in a row is not.
    """
    names = ("sum", "mean", "maximum", "GCN", "GAT", "spectral")

    @jax.jit
    def measure(key):
        graph_key, x_key, order_key, *keys = jax.random.split(key, 10)
        a = erdos_renyi(nodes, 0.3, key=graph_key)
        # a ring besides: the normalised Laplacian needs a neighbour for every vertex
        ring = jnp.roll(jnp.eye(nodes), 1, axis=0)
        a = jnp.maximum(a, ring + ring.T)
        x = jax.random.normal(x_key, (nodes, features))
        p = random_permutations(nodes, orders + 1, key=order_key).at[0].set(jnp.arange(nodes))

        def passing(k, kind):
            message_key, update_key = jax.random.split(k)
            return MessagePassing(
                drawn(lambda k: MLP((2 * features, 8, 2), tanh, key=k), update_key),
                drawn(lambda k: MLP((features, features), key=k), message_key),
                kind,
            )

        layers = [
            *[passing(k, kind) for k, kind in zip(keys[:3], ("sum", "mean", "max"), strict=True)],
            drawn(lambda k: GCNClassifier(features, 8, 2, key=k), keys[3]),
            drawn(lambda k: GATLayer(features, 2, tanh, key=k), keys[4]),
            drawn(lambda k: SpectralLayer(features, 2, 3, key=k), keys[5]),
        ]

        def all_of_them(x, a):
            return jnp.stack([layer(x, a) for layer in layers], axis=1)

        flat = drawn(lambda k: MLP((nodes**2, 8, 1), tanh, key=k), keys[6])

        def renamed(p):
            x_, a_ = x[p], a[p][:, p]
            return all_of_them(x_, a_)[jnp.argsort(p)], flat(a_.ravel())[0]

        return jax.lax.map(renamed, p)

    outputs, row = measure(key)
    for i, name in enumerate(names):
        yield equal(f"{name}: outputs of the renamed graph", outputs[1:, :, i], outputs[0, :, i])
    sums = outputs.sum(1)
    yield equal("sums over the vertices", sums[1:], sums[0], atol=1e-11)
    yield control("a network of the entries of A", equal("output of the renamed graph", row[1:], row[0]))
