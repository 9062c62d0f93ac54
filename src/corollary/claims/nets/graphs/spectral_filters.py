"""Filters of signals on graphs: by their response to frequencies, and by polynomials of the Laplacian."""

from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.sparse.csgraph import shortest_path
from scipy.special import ive

from corollary.claims._drawn import drawn
from corollary.data import cycle_graph, erdos_renyi, path_graph
from corollary.evidence import Range, Size, at_most, claim, control, equal, printed, rate
from corollary.nets.graphs import (
    Edges,
    GraphFourier,
    SpectralLayer,
    chebyshev_coefficients,
    chebyshev_filter,
    degrees,
    graph_convolve,
    graph_laplacian,
    laplacian_apply,
    polynomial_filter,
    polynomial_filter_cost,
    spectral_filter,
)


@claim(rows=("E07.26", "E07.28"))
def polynomials_need_no_spectrum(key, *, order: Size = 6, signals: Size = 3):
    r"""A polynomial filter is the same by products with the Laplacian as by its eigendecomposition.

    $U(\sum_{k\le K}\alpha_k\Lambda^k)U^\top x=\sum_{k\le K}\alpha_kL^kx$: $K$ products with $L$ of $2|E|+2M$ operations
    each, in place of an eigendecomposition in $O(M^3)$. Filters do not depend on the choice of the basis in spaces of
    equal frequencies, as the convolution $U(U^\top x\odot U^\top y)$ does; the cycle has such spaces.
    The heat filter $e^{-\tau L}$ is no polynomial; interpolated in Chebyshev points of
    $[0,\lambda]$ its error is at most $2\sum_{k>K}|c_k|$ with $c_k=2e^{-\tau\lambda/2}(-1)^kI_k(\tau\lambda/2)$, which
    falls faster than geometrically.
    """
    n, tau, top = 16, 1.0, 4.0  # a cycle: eigenvalues up to 4
    graph = cycle_graph(n)
    edges = Edges.of(graph)
    orders = np.arange(1, 16)
    heat = np.stack([np.pad(chebyshev_coefficients(lambda f: np.exp(-tau * f), k, top), (0, 15 - k)) for k in orders])

    @jax.jit
    def measure(key):
        alpha_key, x_key, turn_key = jax.random.split(key, 3)
        alpha = jax.random.normal(alpha_key, (order + 1,))
        x = jax.random.normal(x_key, (n, signals))
        lap = graph_laplacian(jnp.asarray(graph))

        def response(f):
            return jnp.polyval(alpha[::-1], f)

        by_spectrum = spectral_filter(lap, response, x)
        by_products = polynomial_filter(lambda v: laplacian_apply(edges, v), alpha, x)
        # another basis of the plane of the first pair of waves
        waves = GraphFourier(lap)
        c, s = jnp.cos(angle := jax.random.uniform(turn_key, minval=0.5, maxval=1.0)), jnp.sin(angle)
        turned = waves.basis.at[:, 1:3].set(waves.basis[:, 1:3] @ jnp.array([[c, -s], [s, c]]))
        gain = response(waves.frequencies)[:, None]
        by_other = turned @ (gain * (turned.T @ x))
        products = jnp.stack([graph_convolve(x[:, 0], x[:, 1], u) for u in (waves.basis, turned)])
        exact = spectral_filter(lap, lambda f: jnp.exp(-tau * f), x)
        near = jax.vmap(lambda c: chebyshev_filter(lap, c, x, top=top))(jnp.asarray(heat))
        error = jnp.linalg.norm(near - exact, axis=(1, 2)) / jnp.linalg.norm(x)
        size = jnp.sum(jnp.abs(alpha) * top ** jnp.arange(order + 1.0)) * jnp.linalg.norm(x)
        return by_spectrum, by_products, by_other, products, error, size

    by_spectrum, by_products, by_other, products, error, size = measure(key)
    # terms of the size of the largest eigenvalue to the K are added
    rounding = 1e-13 * float(size)
    yield equal("by products with the edges and by the spectrum", by_products, by_spectrum, atol=rounding)
    yield equal("by the spectrum in another basis", by_other, by_spectrum, atol=rounding)
    yield control(
        "the operation is a filter: here the product of two signals",
        equal("product of two signals", products[1], products[0]),
    )
    k = np.arange(60)
    c = 2 * ive(k, tau * top / 2)  # the modulus of the coefficients
    bound = np.array([2 * c[K + 1 :].sum() for K in orders])
    yield at_most("heat filter, Chebyshev points", error, bound, atol=1e-14, x=orders, along="order K")
    geometric = bound[0] * 4.0 ** -np.arange(len(orders))
    yield at_most("it falls faster than 4 to the minus K", error, geometric, atol=1e-14, x=orders, along="order K")
    sizes = np.array([50, 100, 200, 400])
    counted = np.array([_operations(int(m)) for m in sizes])
    predicted = [polynomial_filter_cost(int(m), int(m), 1) - 3 * m for m in sizes]
    yield equal("operations of one product on rings, as counted by XLA", counted, predicted, x=sizes, along="vertices")
    yield rate("operations of one product", sizes, counted, 1.0, tolerance=0.01, along="vertices")
    # a complete graph has of the order of M² edges
    few = np.array([25, 50, 100, 200])
    dense = [_operations(int(m), complete=True) for m in few]
    yield control(
        "a vertex has few neighbours: here all others",
        rate("operations of one product", few, dense, 1.0, tolerance=0.01, along="vertices"),
    )


def _operations(nodes, complete: bool = False) -> float:
    """What XLA counts in a product with the Laplacian of a ring, or of a complete graph, the degrees left out."""
    x = jax.ShapeDtypeStruct((nodes, 1), float)
    ring = np.stack([np.arange(nodes), (np.arange(nodes) + 1) % nodes], axis=1)
    graph = Edges(np.stack(np.triu_indices(nodes, 1), axis=1) if complete else ring, nodes)
    both = [lambda x: laplacian_apply(graph, x), lambda x: degrees(graph) + x[:, 0] * 0]
    # for a GPU there is no count before a program is compiled (cost_analysis gives None); the operations are the same
    with jax.default_device(jax.devices("cpu")[0]):
        product, only_degrees = (jax.jit(f).lower(x).cost_analysis()["flops"] for f in both)
    return product - (only_degrees - 2 * nodes)


@claim(rows=("E07.27",))
def neighbourhood_of_a_polynomial(
    key, *, nodes: Annotated[int, Range(12, 200)] = 18, order: Annotated[int, Range(1, 8)] = 5
):
    r"""A polynomial filter of order K looks K steps far, and no further.

    $(L^k)_{ij}=0$ where the distance of $i$ and $j$ exceeds $k$, and where it is exactly $k$,
    $(L^k)_{ij}=(-1)^k$ times the number of shortest paths: all in whole numbers. So $\sum_{k\le K}\alpha_kL^k$ uses
    exactly the neighbourhood of $K$ steps. Filters that are no polynomial, such as $e^{-L}$, reach everywhere.
    """

    @jax.jit
    def measure(key):
        # a random graph with a tail that is longer than the order
        random = jnp.pad(erdos_renyi(nodes - order - 1, 0.2, key=key), (0, order + 1))
        graph = jnp.maximum(random, jnp.asarray(path_graph(nodes)))
        lap = graph_laplacian(graph)
        power = lambda k: polynomial_filter(lap, jnp.zeros(k + 1).at[k].set(1.0), jnp.eye(nodes))  # noqa: E731
        heat = spectral_filter(lap, lambda f: jnp.exp(-f), jnp.eye(nodes))
        return graph, jnp.stack([power(k) for k in range(1, order + 1)]), heat

    graph, powers, heat = map(np.asarray, measure(key))
    distance = shortest_path(graph, unweighted=True)
    paths = _shortest_paths(graph)
    k = np.arange(1, order + 1)[:, None, None]
    beyond, edge = distance > k, distance == k
    yield equal("powers beyond their distance", powers[beyond], 0.0, atol=0)
    expected = np.broadcast_to((-1.0) ** k * paths, powers.shape)
    yield equal("powers at their distance: shortest paths, with a sign", powers[edge], expected[edge], rtol=0, atol=0)
    yield control(
        "the filter is a polynomial: here that of heat", equal("entries beyond distance K", heat[distance > order], 0.0)
    )


def _shortest_paths(a):
    """How many shortest paths join each pair, by counting from every vertex in turn."""
    count = np.zeros_like(a)
    for start in range(len(a)):
        reached, layer = np.zeros(len(a), bool), np.zeros(len(a))
        layer[start] = 1
        while layer.any():
            count[start] += layer
            reached |= layer > 0
            layer = np.where(reached, 0, a @ layer)
    return count


@claim(rows=("E07.29",))
def channels_of_polynomials(key, *, inputs: Size = 3, outputs: Size = 2, order: Size = 2, nodes: Size = 7):
    r"""A layer with a polynomial filter from every channel to every other is affine, with few parameters.

    $\xi_m=\sum_{n\le c_{in}}p_{mn}(L)x_n+b_m$, $p_{mn}(L)=\sum_{k\le K}\alpha_{mnk}L^k$, for channels
    $x_n\in\mathbb R^M$: the matrix with the blocks $p_{mn}(L)$, on all channels in a row, plus $b_m$. It has
    $c_{out}c_{in}(K+1)+c_{out}$ parameters, whatever the number of vertices, and is equivariant. With $K=1$,
    $\alpha_0=2$, $\alpha_1=-1$ and $\tilde L$ it is $I+D^{-1/2}AD^{-1/2}$: the propagation of a GCN before its loops
    are counted in the degrees.
    """

    @jax.jit
    def measure(key):
        graph_key, x_key, layer_key, order_key = jax.random.split(key, 4)
        graph = jnp.maximum(erdos_renyi(nodes, 0.3, key=graph_key), jnp.asarray(path_graph(nodes)))
        x = jax.random.normal(x_key, (nodes, inputs))
        layer = drawn(lambda k: SpectralLayer(inputs, outputs, order, normalised=False, key=k), layer_key)
        made = drawn(lambda k: SpectralLayer(1, 1, 1, key=k), layer_key)
        first = eqx.tree_at(lambda m: (m.coefficients, m.bias), made, (jnp.array([[[2.0, -1.0]]]), jnp.zeros(1)))
        out = layer(x, graph)
        p = jax.random.permutation(order_key, nodes)
        moved = layer(x[p], graph[p][:, p])[jnp.argsort(p)]
        return graph, x, layer, out, moved, first(x[:, :1], graph)

    graph, x, layer, out, moved, first = measure(key)
    graph, x, out = np.asarray(graph), np.asarray(x), np.asarray(out)
    lap = np.diag(graph.sum(0)) - graph
    powers = [np.linalg.matrix_power(lap, k) for k in range(order + 1)]
    alpha, bias = np.asarray(layer.coefficients), np.asarray(layer.bias)
    blocks = np.block(
        [[sum(alpha[m, n, k] * powers[k] for k in range(order + 1)) for n in range(inputs)] for m in range(outputs)]
    )
    expected = blocks @ x.T.ravel() + np.repeat(bias, nodes)
    yield equal("one matrix of polynomials, plus the biases", out.T.ravel(), expected, atol=1e-11)
    yield equal("renamed vertices", moved, out)
    half = np.diag(graph.sum(0) ** -0.5)
    yield equal("K = 1: propagation of a GCN without loops", first, (np.eye(nodes) + half @ graph @ half) @ x[:, :1])
    yield equal("parameters", alpha.size + bias.size, outputs * inputs * (order + 1) + outputs)


@claim(
    rows=("E07.29",),
    erratum="A sum over the vertices with the bias b_n is no layer of graphs: m and n must be channels, the bias b_m.",
)
def sum_over_vertices(key, *, nodes: Size = 6, order: Size = 2):
    r"""As printed: a graph-convolutional layer sums polynomials of the Laplacian over the vertices.

    $\xi_m=\sum_{n=1}^Mp_{mn}(L)x_n+b_n$ with $M$ vertices, as everywhere in the chapter. $L$ is $M\times M$, so that
    $p_{mn}(L)x_n$ has a meaning only if a vertex has exactly $M$ features; and even then the parameters are tied to the
    names of the vertices, and the layer is not equivariant. With channels it is.
    """

    @jax.jit
    def measure(key):
        graph_key, x_key, alpha_key, layer_key, bias_key = jax.random.split(key, 5)
        graph = jnp.maximum(erdos_renyi(nodes, 0.3, key=graph_key), jnp.asarray(path_graph(nodes)))
        x = jax.random.normal(x_key, (nodes, nodes))
        alpha = jax.random.normal(alpha_key, (nodes, nodes, order + 1))
        bias = jax.random.normal(bias_key, (nodes, 1))

        def literal(x, graph):
            lap = graph_laplacian(graph)
            powers = jnp.stack([jnp.linalg.matrix_power(lap, k) for k in range(order + 1)])
            return jnp.einsum("mnk,kij,nj->mi", alpha, powers, x) + jnp.sum(bias)

        layer = drawn(lambda k: SpectralLayer(nodes, nodes, order, normalised=False, key=k), layer_key)
        p = jnp.roll(jnp.arange(nodes), 1)

        def sides(f):
            return f(x[p], graph[p][:, p])[jnp.argsort(p)], f(x, graph)

        return sides(layer), sides(literal)

    channels, vertices = measure(key)
    yield equal("sum over channels: renamed vertices", *channels)
    yield printed(equal("sum over vertices: renamed vertices", *vertices))
