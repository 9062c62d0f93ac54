"""The coupling matrix of graph convolutional networks: its spectrum, and what powers of it do."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.sparse.csgraph import connected_components

from corollary.data import (
    barbell_graph,
    binary_tree,
    cycle_graph,
    disjoint_union,
    erdos_renyi,
    path_graph,
    star_graph,
    two_blocks,
)
from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, rate
from corollary.nets.graphs import gcn_coupling, gcn_propagate

NODES = 20


def _fixed():
    """A path, a cycle, a star, a barbell, two components, a tree with isolated vertices, all of 10 against 10."""
    sides = np.arange(NODES) < NODES // 2
    return np.stack(
        [
            path_graph(NODES),
            cycle_graph(NODES),
            star_graph(NODES - 1),
            barbell_graph(8, 4),
            disjoint_union(cycle_graph(7), path_graph(13)),
            disjoint_union(binary_tree(3), np.zeros((5, 5))),
            (sides[:, None] != sides[None, :]).astype(float),
        ]
    )


@claim(rows=("E07.12", "E07.13"))
def spectrum_of_the_coupling(key, *, graphs: Size = 30, depth: Count = 20):
    r"""The coupling matrix of a GCN has norm exactly one.

    $\bar A=D^{-1/2}(A+I)D^{-1/2}$ with $d_m=1+\sum_na_{nm}$ has its eigenvalues in $(-1,1]$. The largest is 1, with
    the eigenvector $D^{1/2}\mathbf 1$ and as often as there are components; the smallest is at least
    $-1+2/\max_md_m$, since
    $$x^\top(I+\bar A)x=\sum_{\{i,j\}\in E}(x_i/\sqrt{d_i}+x_j/\sqrt{d_j})^2+2\sum_ix_i^2/d_i,$$
    attained where all edges go between two halves of equal size. So $\|\bar A^kX\|\le\|X\|$. Without the
    normalisation, or with degrees that do not count the vertex itself, the norm is larger; and weights of norm above
    1 let features grow all the same.
    """
    fixed = _fixed()

    @jax.jit
    def measure(key):
        chance_key, graph_key, block_key, x_key = jax.random.split(key, 4)
        chances = jax.random.uniform(chance_key, (graphs,), minval=0.02, maxval=0.4)
        random = jax.vmap(lambda k, p: erdos_renyi(NODES, p, key=k))(jax.random.split(graph_key, graphs), chances)
        blocks = two_blocks(NODES, 10.0, 1.0, key=block_key).adjacency
        a = jnp.concatenate([jnp.asarray(fixed), blocks[None], random])
        coupling = jax.vmap(gcn_coupling)(a)
        degree = 1 + a.sum(1)
        x = jax.random.normal(x_key, (len(a), NODES, 2))
        top = jnp.sqrt(degree)[:, :, None] / jnp.sqrt(degree.sum(1))[:, None, None]
        x = jnp.concatenate([x / jnp.linalg.norm(x, axis=(1, 2), keepdims=True), top], axis=2)

        def advance(states, _):
            x, weighted = (jax.vmap(gcn_propagate)(x, a) for x in states)
            weighted = 1.5 * weighted
            sizes = jnp.linalg.norm(x[:, :, :2], axis=(1, 2)), jnp.linalg.norm(x[:, :, 2], axis=1)
            return (x, weighted), (*sizes, jnp.linalg.norm(weighted[:, :, 2], axis=1))

        _, norms = jax.lax.scan(advance, (x, x), None, length=depth)
        miss = jnp.einsum("gij,gj->gi", coupling, top[:, :, 0]) - top[:, :, 0]
        star = a[2]
        half = jax.lax.rsqrt(star.sum(1))
        wrong = jnp.eye(NODES) + half[:, None] * star * half
        extra = jnp.stack([star + jnp.eye(NODES), wrong])
        return a, jax.lax.map(jnp.linalg.eigvalsh, jnp.concatenate([coupling, extra])), miss, norms, coupling

    a, spectra, miss, (norms, kept, grown), coupling = measure(key)
    a, spectra = np.asarray(a), np.asarray(spectra)
    (plain, wrong), spectra = spectra[-2:], spectra[:-2]
    degree = 1 + a.sum(1)
    entries = (a + np.eye(NODES)) / np.sqrt(degree[:, :, None] * degree[:, None, :])
    yield equal("entries are 1 over the root of both degrees", coupling, entries)
    yield equal("norm", np.abs(spectra).max(1), 1.0, rtol=1e-12, along="graph")
    yield equal("the eigenvector of the roots of the degrees", miss, 0.0, atol=1e-14)
    # the second eigenvalue of a path of 20 is 0.008 away
    found = (spectra > 1 - 1e-9).sum(1)
    yield equal("how often 1 is an eigenvalue: components", found, [connected_components(m)[0] for m in a])
    yield at_least("smallest eigenvalue", spectra[:, 0], -1 + 2 / degree.max(1), atol=1e-12, along="graph")
    yield equal("it is attained between two halves", spectra[6, 0], -1 + 2 / (NODES // 2 + 1))
    yield at_most("norm of the features after k propagations", norms.T, 1.0, along="propagations")
    yield equal("norm of those along the eigenvector", kept.T, 1.0, along="propagations")
    yield control("the matrix is normalised: here not", at_most("norm", np.abs(plain).max(), 1.0))
    yield control("degrees count the vertex itself: here not", at_most("norm", np.abs(wrong).max(), 1.0))
    yield equal("its norm is two", np.abs(wrong).max(), 2.0)
    yield control(
        "there are no weights: here of norm 1.5 in every layer",
        at_most("norm of the features after k propagations", grown.T, 1.0, along="propagations"),
    )


@claim(rows=("E07.17",))
def over_smoothing(key, *, nodes: Size = 24, depth: Count = 100):
    r"""Many propagations leave nothing of the features but their mean along one direction.

    On a connected graph $\bar A^k\to uu^\top$, $u=D^{1/2}\mathbf 1/\|D^{1/2}\mathbf 1\|$, and
    $$\|\bar A^kX-uu^\top X\|\le\lambda_\star^k\|X-uu^\top X\|,\qquad\lambda_\star=\max(|\lambda_2|,|\lambda_M|)<1,$$
    attained along an eigenvector: but for the factor $\sqrt{d_m}$ all vertices look alike in the end. ReLU layers
    $(\bar AXW)_+$ with $\|W\|\le1$ smooth as fast at least, because $u$ is not negative. In a graph with two
    components vertices of different ones stay apart; and with the first features added in every layer,
    $X_{k+1}=(1-\alpha)\bar AX_k+\alpha X_0$, the limit is $\alpha(I-(1-\alpha)\bar A)^{-1}X_0$, not of rank one.
    """
    k, share = np.arange(1, depth + 1), 0.1

    @jax.jit
    def measure(key):
        graph_key, x_key, w_key = jax.random.split(key, 3)
        ring = jnp.roll(jnp.eye(nodes), 1, axis=0)
        a = jnp.maximum(erdos_renyi(nodes, 0.12, key=graph_key), ring + ring.T)
        half = jnp.arange(nodes) < nodes // 2
        cut = a * (half[:, None] == half[None, :])
        values, vectors = jnp.linalg.eigh(gcn_coupling(a))
        u = jnp.sqrt(1 + a.sum(1))
        u = u / jnp.linalg.norm(u)
        slow = jnp.where(jnp.abs(values[0]) > jnp.abs(values[-2]), vectors[:, 0], vectors[:, -2])
        x = jnp.concatenate([jax.random.normal(x_key, (nodes, 3)), slow[:, None]], axis=1)
        # orthogonal weights: the largest that the bound allows
        w, _ = jnp.linalg.qr(jax.random.normal(w_key, (depth, 3, 3)))

        def off(x, columns=3):
            rest = x - u[:, None] * (u @ x)
            return jnp.linalg.norm(rest[:, :columns])

        def advance(state, w):
            plain, rectified, parted, skipping = state
            plain = gcn_propagate(plain, a)
            rectified = jax.nn.relu(gcn_propagate(rectified, a) @ w)
            parted = gcn_propagate(parted, cut)
            skipping = (1 - share) * gcn_propagate(skipping, a) + share * x
            slow_off = jnp.linalg.norm(plain[:, 3])
            found = jnp.stack([off(plain), off(rectified), off(parted), off(skipping), slow_off])
            return (plain, rectified, parted, skipping), found

        state, found = jax.lax.scan(advance, (x, x[:, :3], x, x), w)
        star = jnp.maximum(jnp.abs(values[0]), jnp.abs(values[-2]))
        # the limit with a skip, from the spectrum
        limit = vectors @ ((share / (1 - (1 - share) * values))[:, None] * (vectors.T @ x))
        return found.T, off(x), star, state[3], limit

    found, start, star, skipping, limit = measure(key)
    bound = np.asarray(start) * float(star) ** k
    # differences of numbers of the order of one
    rounding = 1e-14
    yield at_most("distance to the limit", found[0], bound, atol=rounding, x=k, along="propagations")
    yield equal("the slowest direction", found[4], float(star) ** k, atol=rounding, x=k, along="propagations")
    yield at_most("ReLU layers with orthogonal weights", found[1], bound, atol=rounding, x=k, along="layers")
    # the residue after k steps is 0.9 to the k of the start
    yield equal("limit with the first features added", skipping, limit, atol=10 * (1 - share) ** depth)
    yield control(
        "the graph is connected: here not", at_most("distance to the limit", found[2], bound, atol=rounding, x=k)
    )
    yield control(
        "nothing is added on the way: here the first features",
        at_most("distance to the limit", found[3], bound, atol=rounding, x=k),
    )


@claim(rows=("E07.18",))
def over_squashing(key, *, deepest: Size = 6):
    r"""What a leaf of a binary tree tells the root fades by 4 with every layer, while the leaves double.

    In $r$ layers the only walk of length $r$ from a leaf to the root of a tree of depth $r$ is the path, so that
    $(\bar A^r)_{root,leaf}=\frac1{\sqrt{3\cdot2}}4^{-(r-1)}$ for degrees (with the vertex itself) 3 at the root, 4
    inside and 2 at a leaf. For layers $\sigma(\bar AXW)$ with $|\sigma'|\le1$ and $\|W\|\le1$ this bounds the
    derivative of the root's features in the leaf's. All $2^r$ leaves together have the influence
    $\frac4{\sqrt6}2^{-r}$: their number grows exponentially, what the root can hear of them falls exponentially.
    """
    depths = np.arange(2, deepest + 1)
    nodes = 2 ** (deepest + 1) - 1
    trees = np.stack([np.pad(binary_tree(int(r)), (0, nodes - 2 ** (r + 1) + 1)) for r in depths])

    @jax.jit
    def measure(key):
        w_key, x_key = jax.random.split(key)
        w, _ = jnp.linalg.qr(jax.random.normal(w_key, (deepest, 2, 2)))
        x = 0.3 * jax.random.normal(x_key, (nodes, 2))

        def influence(tree, depth):
            """Derivatives of the root after `depth` layers: linear with one feature, tanh with two."""

            def root(x, activation, w):
                def layer(x, i):
                    out = activation(gcn_propagate(x, tree) @ w[i])
                    return jnp.where(i < depth, out, x), None

                return jax.lax.scan(layer, x, jnp.arange(deepest))[0][0]

            linear = jax.jacrev(lambda x: root(x, lambda z: z, jnp.ones((deepest, 1, 1))))(x[:, :1])[0, :, 0]
            slopes = jnp.moveaxis(jax.jacrev(lambda x: root(x, jnp.tanh, w))(x), 1, 0)  # (nodes, 2, 2)
            return linear, jnp.linalg.norm(slopes, axis=(1, 2))  # Frobenius: two singular values of at most one factor

        return jax.lax.map(lambda t: influence(*t), (jnp.asarray(trees), jnp.asarray(depths)))

    linear, slopes = map(np.asarray, measure(key))
    leaf = 4.0 ** -(depths - 1) / np.sqrt(6)
    leaves = [np.arange(2**r - 1, 2 ** (r + 1) - 1) for r in depths]
    each = np.array([[row[i].min(), row[i].max()] for row, i in zip(linear, leaves, strict=True)])
    together = np.array([row[i].sum() for row, i in zip(linear, leaves, strict=True)])
    yield equal("influence of a leaf, smallest and largest", each.T, leaf, x=depths, along="depth of the tree")
    yield equal("influence of all leaves", together, 4 / np.sqrt(6) * 2.0**-depths, x=depths, along="depth of the tree")
    yield rate("influence of all leaves", depths, together, -np.log(2), tolerance=1e-6, axes="semi-log", along="depth")
    # the Frobenius norm of a matrix of size two is at most the root of two times its norm
    largest = np.array([row[i].max() for row, i in zip(slopes, leaves, strict=True)]) / np.sqrt(2)
    yield at_most("tanh layers with orthogonal weights", largest, leaf, x=depths, along="depth of the tree")
    # on a path every vertex inside has three neighbours with itself, two of them on the way
    paths = [np.linalg.matrix_power(np.asarray(gcn_coupling(jnp.asarray(path_graph(r + 1)))), r)[0, -1] for r in depths]
    yield control(
        "the graph is a binary tree: here a path",
        equal("influence of the end", paths, leaf, x=depths, along="depth of the tree"),
    )
