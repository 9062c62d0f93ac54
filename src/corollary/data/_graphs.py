r"""Graphs as adjacency matrices: the standard ones, random ones with and without blocks, a real one, and twins.

Fixed graphs are NumPy arrays; random ones are drawn with a key and can be batched with `jax.vmap`. Vertices are
numbered from 0; no vertex is joined to itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int, Num, PRNGKeyArray

from corollary._types import Scalar
from corollary._validate import labels as as_labels
from corollary._validate import one_of, real, whole, within
from corollary.catalog import implements

__all__ = [
    "GraphData",
    "adjacency",
    "barbell_graph",
    "binary_tree",
    "complete_graph",
    "cycle_graph",
    "disjoint_union",
    "erdos_renyi",
    "grid_graph",
    "karate_club",
    "path_graph",
    "star_graph",
    "stochastic_block_model",
    "two_blocks",
    "two_blocks_signal",
    "wl_twins",
]

# Zachary's karate club (W. W. Zachary, 1977): for each member those of higher number that they met outside the club
_KARATE = {
    0: (1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 17, 19, 21, 31),
    1: (2, 3, 7, 13, 17, 19, 21, 30),
    2: (3, 7, 8, 9, 13, 27, 28, 32),
    3: (7, 12, 13),
    4: (6, 10),
    5: (6, 10, 16),
    6: (16,),
    8: (30, 32, 33),
    9: (33,),
    13: (33,),
    14: (32, 33),
    15: (32, 33),
    18: (32, 33),
    19: (33,),
    20: (32, 33),
    22: (32, 33),
    23: (25, 27, 29, 32, 33),
    24: (25, 27, 31),
    25: (31,),
    26: (29, 33),
    27: (33,),
    28: (31, 33),
    29: (32, 33),
    30: (32, 33),
    31: (32, 33),
    32: (33,),
}
# those who went with the instructor (member 0) when the club split; the others stayed with the president (member 33)
_INSTRUCTOR = (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 16, 17, 19, 21)


class GraphData(NamedTuple):
    """A graph with a class for every vertex: `adjacency` of shape (m, m), `labels` of shape (m,)."""

    adjacency: jax.Array
    labels: jax.Array


@implements("E07.09")
def adjacency(edges: Int[ArrayLike, "m 2"] | Sequence[tuple[int, int]], nodes: int) -> np.ndarray:
    r"""$a_{ij}=1$ where $\{v_i,v_j\}$ is one of the `edges` (pairs of vertices, either way round), else 0."""
    nodes = whole("nodes", nodes)
    pairs = np.asarray(edges)
    if pairs.size and (pairs.ndim != 2 or pairs.shape[1] != 2):
        raise ValueError(f"edges must be pairs of vertices, got shape {pairs.shape}.")
    if pairs.size and pairs.dtype.kind not in "iu":
        raise TypeError(f"edges must hold whole numbers, got dtype {pairs.dtype}.")
    pairs = pairs.reshape(-1, 2).astype(int)
    within("edges", pairs, 0, nodes - 1)
    if (loops := pairs[pairs[:, 0] == pairs[:, 1]]).size:
        raise ValueError(f"edges must join two different vertices, got {tuple(map(int, loops[0]))}.")
    out = np.zeros((nodes, nodes))
    out[pairs[:, 0], pairs[:, 1]] = out[pairs[:, 1], pairs[:, 0]] = 1.0
    return out


@implements("E07.09")
def path_graph(nodes: int) -> np.ndarray:
    """$0-1-2-\\dots$: the largest diameter that a graph of this size can have."""
    nodes = whole("nodes", nodes)
    return adjacency([(i, i + 1) for i in range(nodes - 1)], nodes)


@implements("E07.09")
def cycle_graph(nodes: int) -> np.ndarray:
    """A path whose ends are joined."""
    nodes = whole("nodes", nodes, 3)
    return adjacency([(i, (i + 1) % nodes) for i in range(nodes)], nodes)


@implements("E07.09")
def complete_graph(nodes: int) -> np.ndarray:
    """Every vertex joined to every other one."""
    nodes = whole("nodes", nodes)
    return np.ones((nodes, nodes)) - np.eye(nodes)


@implements("E07.09")
def star_graph(leaves: int) -> np.ndarray:
    """Vertex 0 joined to each of the others, and nothing else."""
    leaves = whole("leaves", leaves)
    return adjacency([(0, i) for i in range(1, leaves + 1)], leaves + 1)


@implements("E07.09")
def barbell_graph(bell: int, bridge: int = 0) -> np.ndarray:
    """Two complete graphs of `bell` vertices joined by a path with `bridge` vertices between."""
    bell, bridge = whole("bell", bell, 2), whole("bridge", bridge, 0)
    out = disjoint_union(complete_graph(bell), np.zeros((bridge, bridge)), complete_graph(bell))
    chain = range(bell - 1, bell + bridge)
    return np.maximum(out, adjacency([(i, i + 1) for i in chain], len(out)))


@implements("E07.09")
def binary_tree(depth: int) -> np.ndarray:
    r"""The root 0, whose $2^\mathrm{depth}$ leaves are the last vertices; the children of $i$ are $2i+1,2i+2$."""
    nodes = 2 ** (whole("depth", depth, 0, 20) + 1) - 1
    return adjacency([((i - 1) // 2, i) for i in range(1, nodes)], nodes)


@implements("E07.09")
def grid_graph(rows: int, columns: int) -> np.ndarray:
    """Points of a rectangle, row by row, each joined to the next ones left, right, above and below."""
    rows, columns = whole("rows", rows), whole("columns", columns)
    across = np.kron(np.eye(rows), path_graph(columns))
    return across + np.kron(path_graph(rows), np.eye(columns))


@implements("E07.09")
def disjoint_union(*graphs: Num[ArrayLike, "n n"]) -> np.ndarray:
    """The graphs beside each other, no edge between them."""
    sizes = [np.shape(g)[0] if np.ndim(g) == 2 and np.shape(g)[0] == np.shape(g)[1] else None for g in graphs]
    if not graphs or None in sizes:
        raise ValueError(f"graphs must be square matrices, got shapes {[np.shape(g) for g in graphs]}.")
    starts = np.concatenate([[0], np.cumsum(sizes)])
    out = np.zeros((starts[-1], starts[-1]))
    for graph, a, b in zip(graphs, starts[:-1], starts[1:], strict=True):
        out[a:b, a:b] = graph
    return out


@implements("E07.09")
def erdos_renyi(nodes: int, probability: Scalar, *, key: PRNGKeyArray) -> jax.Array:
    """Every pair of vertices is joined with this probability, independently."""
    nodes, probability = whole("nodes", nodes), real("probability", probability, "")
    within("probability", probability, 0.0, 1.0)
    return _bernoulli(key, jnp.broadcast_to(probability, (nodes, nodes)))


@implements("E07.09")
def stochastic_block_model(
    labels: Int[ArrayLike, "n"], probabilities: Float[ArrayLike, "k k"], *, key: PRNGKeyArray
) -> GraphData:
    r"""Vertices $i,j$ are joined with probability $p_{y_iy_j}$, independently.

    `labels` gives the block of every vertex, `probabilities` is a symmetric matrix (blocks, blocks).
    """
    probabilities = real("probabilities", probabilities, "k k", {})
    blocks = probabilities.shape[0]
    within("probabilities", probabilities, 0.0, 1.0)
    if not isinstance(probabilities, jax.core.Tracer) and not np.array_equal(seen := np.asarray(probabilities), seen.T):
        raise ValueError("probabilities must be symmetric: the graph has no directions.")
    labels = as_labels("labels", labels, blocks, "n")
    return GraphData(_bernoulli(key, probabilities[labels[:, None], labels[None, :]]), labels)


def two_blocks(nodes: int, inside: Scalar, outside: Scalar, *, key: PRNGKeyArray) -> GraphData:
    r"""Two blocks of half of the vertices each; a vertex has `inside`$/2$ neighbours in its own block on average
    and `outside`$/2$ in the other: probabilities $c_{in}/m$ and $c_{out}/m$."""
    nodes = whole("nodes", nodes, 2)
    inside, outside = real("inside", inside, ""), real("outside", outside, "")
    within("inside", inside, 0.0, nodes)
    within("outside", outside, 0.0, nodes)
    chances = jnp.stack([jnp.stack([inside, outside]), jnp.stack([outside, inside])]) / nodes
    return stochastic_block_model(jnp.arange(nodes) * 2 // nodes, chances, key=key)


def two_blocks_signal(inside: Float[ArrayLike, "..."], outside: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$\frac{(c_{in}-c_{out})^2}{2(c_{in}+c_{out})}$: below 1 no method whatever finds two blocks in a large graph.

    Above 1 there are some that do better than guessing (Decelle et al. 2011; Mossel, Neeman and Sly; Massoulié).
    """
    inside, outside = real("inside", inside), real("outside", outside)
    within("inside", inside, 0.0, open="low")
    within("outside", outside, 0.0)
    return (inside - outside) ** 2 / (2 * (inside + outside))


def karate_club() -> GraphData:
    """34 members of a karate club, 78 friendships, and the side each took when the club split (0: the instructor's,
    1: the president's). Members 0 and 33 are the instructor and the president.

    >>> karate_club().adjacency.shape
    (34, 34)
    """
    pairs = [(i, j) for i, others in _KARATE.items() for j in others]
    sides = np.ones(34, int)
    sides[list(_INSTRUCTOR)] = 0
    return GraphData(adjacency(pairs, 34), sides)


def wl_twins(name: str = "hexagon") -> tuple[np.ndarray, np.ndarray]:
    """Two graphs that are not isomorphic and that colour refinement does not tell apart.

    `hexagon`: a cycle of six, two triangles. `decalin`: two hexagons that share an edge, two pentagons joined by one
    (the carbon skeletons of decalin and bicyclopentyl). `cubic`: all edges between three and three vertices, a prism.
    `rook`: rooks on a 4 by 4 board, and the Shrikhande graph: both strongly regular, with the same spectrum.
    """
    one_of("name", name, ("hexagon", "decalin", "cubic", "rook"))
    if name == "hexagon":
        return cycle_graph(6), disjoint_union(cycle_graph(3), cycle_graph(3))
    if name == "decalin":
        first = np.maximum(cycle_graph(10), adjacency([(0, 5)], 10))
        return first, np.maximum(disjoint_union(cycle_graph(5), cycle_graph(5)), adjacency([(0, 5)], 10))
    if name == "cubic":
        sides = np.arange(6) < 3
        prism = disjoint_union(cycle_graph(3), cycle_graph(3)) + adjacency([(0, 3), (1, 4), (2, 5)], 6)
        return (sides[:, None] != sides[None, :]).astype(float), prism
    four = complete_graph(4)
    board = np.kron(np.eye(4), four) + np.kron(four, np.eye(4))
    # a torus of 4 by 4 with one diagonal in every square
    turns = [(1, 0), (0, 1), (1, 1)]
    edges = [(4 * i + j, 4 * ((i + a) % 4) + (j + b) % 4) for i in range(4) for j in range(4) for a, b in turns]
    return board, adjacency(edges, 16)


def _bernoulli(key, chances):
    """A symmetric matrix of independent zeros and ones above the diagonal, with nothing on it."""
    upper = jnp.triu(jax.random.uniform(key, chances.shape, chances.dtype) < chances, 1)
    return (upper | upper.T).astype(chances.dtype)
