"""What message passing cannot see."""

from itertools import permutations
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims._drawn import drawn
from corollary.data import erdos_renyi, path_graph, star_graph, wl_twins
from corollary.evidence import Range, Size, at_least, claim, control, equal, printed
from corollary.nets import MLP, tanh
from corollary.nets.graphs import GATLayer, GCNLayer, MessagePassing, wl_colours, wl_distinguishes

WIDTH = 4


def _twins(nodes=16):
    """The twins, each pair with isolated vertices to the same number: colour refinement does not mind."""
    pairs = [wl_twins(name) for name in ("hexagon", "decalin", "cubic", "rook")]
    return np.stack([[np.pad(g, (0, nodes - len(g))) for g in pair] for pair in pairs])


def _networks(key, layers=3):
    """Graph to vector: message passing with a sum, mean and maximum, GCN, GAT; the sum over vertices at the end."""

    def passing(key, kind):
        update = drawn(lambda k: MLP((2 * WIDTH, WIDTH), tanh, key=k), key, gain=1.5)
        return MessagePassing(lambda z: jnp.tanh(update(z)), jnp.tanh, kind)

    def stack(make):
        def network(x, a, keys):
            return jax.lax.scan(lambda x, k: (make(k)(x, a), None), x, keys)[0].sum(0)

        return network

    keys = jax.random.split(key, layers)
    kinds = [
        stack(lambda k: passing(k, "sum")),
        stack(lambda k: passing(k, "mean")),
        stack(lambda k: passing(k, "max")),
        stack(lambda k: drawn(lambda k: GCNLayer(WIDTH, WIDTH, tanh, key=k), k)),
        stack(lambda k: drawn(lambda k: GATLayer(WIDTH, WIDTH, tanh, key=k), k)),
    ]
    return lambda x, a: jnp.stack([network(x, a, keys) for network in kinds])


@claim(rows=("E07.20", "E07.21"))
def bounded_by_colour_refinement(
    key, *, networks: Size = 8, pairs: Size = 30, nodes: Annotated[int, Range(4, 100)] = 7
):
    r"""No message passing network tells apart what colour refinement does not; with sums it sees all of the rest.

    If colour refinement (1-WL) gives two graphs the same histogram of colours, then every network of message passing
    layers, of whatever weights and depth, started from equal features and read out by a function of the multiset of
    vertex features, gives both the same output: GCN, GAT, sums, means and maxima. So a cycle of six is like two
    triangles, although they are not isomorphic. Conversely random networks with sums tell the pairs of random graphs
    apart that refinement does. Means of equal features tell nothing at all apart. One marked vertex is enough to see
    more: the premise of equal features is broken.
    """
    twins = _twins()
    size = twins.shape[2]

    @jax.jit
    def measure(key):
        net_key, pair_key, gin_key, order_key = jax.random.split(key, 4)
        graphs = jnp.asarray(twins)

        def outputs(key):
            network = _networks(key)
            plain = jnp.ones((size, WIDTH))
            marked = plain.at[0].set(-1.0)
            x = jnp.stack([plain, marked])
            return jax.vmap(jax.vmap(lambda a: jax.vmap(lambda x: network(x, a))(x)))(graphs)

        blind = jax.lax.map(outputs, jax.random.split(net_key, networks))  # (networks, pairs, 2, marks, kinds, width)
        random = jax.vmap(lambda k: erdos_renyi(nodes, 0.4, key=k))(jax.random.split(pair_key, 2 * pairs))
        first, second = random.reshape(2, pairs, nodes, nodes)
        order = jax.vmap(lambda k: jax.random.permutation(k, nodes))(jax.random.split(order_key, pairs))
        renamed = jax.vmap(lambda a, p: a[p][:, p])(first, order)
        first, second = jnp.concatenate([first, first]), jnp.concatenate([second, renamed])
        told = jax.vmap(wl_distinguishes)(first, second)
        rounds = jax.vmap(lambda a: wl_colours(a).rounds)(first)

        update = drawn(lambda k: MLP((2 * WIDTH, WIDTH), tanh, key=k), gin_key, gain=1.5)

        def gaps(first, second, aggregation):
            layer = MessagePassing(lambda z: jnp.tanh(update(z)), jnp.tanh, aggregation)

            def read(a):
                # as many layers as there are vertices: refinement needs no more rounds
                x, _ = jax.lax.scan(lambda x, _: (layer(x, a), None), jnp.ones((nodes, WIDTH)), None, length=nodes)
                return x.sum(0)

            return jax.vmap(lambda a, b: jnp.abs(read(a) - read(b)).max())(first, second)

        easy = jnp.asarray(path_graph(nodes))[None], jnp.asarray(star_graph(nodes - 1))[None]
        seen = gaps(*[jnp.concatenate(pair) for pair in zip((first, second), easy, strict=True)], "sum")
        return blind, told, rounds, seen, gaps(*easy, "mean")

    blind, told, rounds, seen, means = map(np.asarray, measure(key))
    names = ("sums", "means", "maxima", "GCN", "GAT")
    for i, name in enumerate(names):
        yield equal(f"{name}: outputs of the twins", blind[:, :, 1, 0, i], blind[:, :, 0, 0, i], atol=1e-10)
    yield equal("renamed graphs that refinement tells apart", told[pairs:], 0.0)
    yield at_least("rounds to spare", nodes - 1 - rounds, 0.0)
    # sums over a few vertices are exact to 1e-14; the first half are different graphs, the second renamed ones
    yield equal("pairs that a network with sums tells apart: those of refinement", seen[:-1] > 1e-9, told)
    yield at_least("sums: difference of a path and a star", seen[-1], 1e-9)
    yield control("means in place of sums", at_least("difference of a path and a star", means, 1e-9))
    yield at_least("share of the pairs of different graphs that are told apart", told[:pairs].mean(), 0.5)
    gap = np.abs(blind[:, 0, 1, 1, 0] - blind[:, 0, 0, 1, 0]).max(1)
    yield control("one marked vertex", equal("cycle of six and two triangles", gap, 0.0, atol=1e-9, along="network"))


@claim(
    rows=("E07.20",),
    erratum="Colour refinement is a necessary condition only: what it does not tell apart need not be isomorphic.",
)
def decides_isomorphism(key, *, renamings: Size = 5):
    r"""As printed: the Weisfeiler-Lehman test computes whether two graphs are isomorphic.

    A graph and itself with other names are isomorphic, and refinement does not tell them apart. A cycle of six and two
    triangles, or all edges between three and three vertices and a prism, are not isomorphic (none of the 720
    renamings works), and refinement does not tell these apart either: what it tells apart is not isomorphic, and the
    converse fails.
    """
    orders = np.array(list(permutations(range(6))))
    twins = np.stack([wl_twins("hexagon"), wl_twins("cubic")])

    @jax.jit
    def measure(key):
        p = jax.vmap(lambda k: jax.random.permutation(k, 6))(jax.random.split(key, renamings))
        first = jnp.asarray(twins[:, 0])
        copies = jax.vmap(lambda p: first[:, p][:, :, p])(p).reshape(-1, 6, 6)
        left = jnp.concatenate([jnp.tile(first, (renamings, 1, 1)), first])
        right = jnp.concatenate([copies, jnp.asarray(twins[:, 1])])
        return left, right, jax.vmap(wl_distinguishes)(left, right)

    left, right, told = map(np.asarray, measure(key))
    moved = left[:, orders[:, :, None], orders[:, None, :]]
    isomorphic = (moved == right[:, None]).all((2, 3)).any(1)
    yield equal("renamed graphs: isomorphic, and not told apart", told[:-2], ~isomorphic[:-2])
    yield equal("all pairs: told apart only if not isomorphic", told & isomorphic, False, rtol=0, atol=0)
    yield printed(equal("twins: told apart exactly if not isomorphic", told[-2:], ~isomorphic[-2:]))
