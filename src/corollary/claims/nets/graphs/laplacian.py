"""The Laplacian as a deviation from the mean, in space and on graphs."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.special import ive

from corollary.data import (
    binary_tree,
    complete_graph,
    cycle_graph,
    disjoint_union,
    erdos_renyi,
    grid_graph,
    path_graph,
    star_graph,
)
from corollary.evidence import Size, at_least, at_most, claim, control, equal, rate
from corollary.nets.graphs import (
    gcn_coupling,
    graph_laplacian,
    laplacian,
    laplacian_apply,
    neighbour_mean,
    sphere_mean_defect,
)


@claim(rows=("E07.22",))
def mean_over_a_sphere(key):
    r"""The Laplacian is what the mean over a small sphere has more than the centre.

    For a smooth $f$ on $\mathbb R^d$ the mean over the sphere of radius $r$ about $x$, minus $f(x)$, is
    $\frac{r^2}{2d}\Delta f(x)+O(r^4)$. For $f=e^{a\cdot x}$ the mean is $f(x)$ times $I_0(r|a|)$ in the plane and
    $\sinh(r|a|)/(r|a|)$ in space, whatever $r$; a quadratic has no remainder, and a function with $\Delta f=0$ inside
    of the sphere has the mean $f(x)$: $x_1^2-x_2^2$, $\log|x|$ in the plane, $1/|x|$ in space. A circle about $x$ that
    goes around the singularity at 0 has the mean $\log r$ of $\log|x|$, not $\log|x|$.
    """
    radii = 2.0 ** -np.arange(0.0, 6.0)

    @jax.jit
    def measure(key):
        def one(key, dim):
            a_key, x_key, q_key = jax.random.split(key, 3)
            a, x = jax.random.normal(a_key, (dim,)), jax.random.normal(x_key, (dim,))
            a, x = a / jnp.linalg.norm(a), 2 * x / jnp.linalg.norm(x)
            q = jax.random.normal(q_key, (dim, dim))
            waves = lambda y: jnp.exp(a @ y)  # noqa: E731
            square = lambda y: y @ q @ y + a @ y  # noqa: E731
            saddle = lambda y: y[0] ** 2 - y[1] ** 2  # noqa: E731
            pole = lambda y: jnp.log(y @ y) / 2 if dim == 2 else jax.lax.rsqrt(y @ y)  # noqa: E731
            r = jnp.asarray(radii)
            along = jax.vmap(lambda r: sphere_mean_defect(waves, x, r))(r)
            # the terms of the pole's expansion fall as (r/|x|)^n: below 1e-16 after 64 of them for r = 1
            flat = [jax.vmap(lambda r, f=f: sphere_mean_defect(f, x, r, order=64))(r) for f in (saddle, pole)]
            quadratic = jax.vmap(lambda r: sphere_mean_defect(square, x, r))(r)
            around = sphere_mean_defect(pole, x, 4.0, order=64) + pole(x)
            exact = jnp.stack([laplacian(waves, x), laplacian(square, x)])
            return along, quadratic, jnp.stack(flat), around, exact, waves(x), 2 * jnp.trace(q), pole(x)

        keys = jax.random.split(key)
        return {dim: one(k, dim) for dim, k in zip((2, 3), keys, strict=True)}

    for dim, (along, quadratic, flat, around, exact, value, trace, pole) in measure(key).items():
        where = "plane" if dim == 2 else "space"
        means = ive(0, radii) * np.exp(radii) if dim == 2 else np.sinh(radii) / radii
        yield equal(f"{where}: Laplacian of an exponential and of a quadratic", exact, jnp.stack([value, trace]))
        # the quadrature has errors of 1e-15 of the value itself
        small = 1e-13 * float(value)
        yield equal(f"{where}: mean of an exponential", along, value * (means - 1), atol=small, x=radii, along="radius")
        yield equal(f"{where}: mean of a quadratic", quadratic, radii**2 * trace / (2 * dim), atol=1e-12)
        remainder = np.asarray(along - radii**2 / (2 * dim) * exact[0])
        yield rate(f"{where}: remainder", radii[1:], remainder[1:], 4.0, tolerance=0.1, along="radius")
        yield equal(f"{where}: no Laplacian, no deviation", flat, 0.0, atol=1e-12)
        yield control("a quadratic with a Laplacian", equal(f"{where}: no deviation", quadratic, 0.0, atol=1e-12))
        if dim == 2:
            yield control("the singularity inside", equal("mean of the logarithm", around, pole))
            # the terms fall as (1/2)^n here, and 64 points leave 2^-64 of them
            yield equal("it is the logarithm of the radius", around, np.log(4.0), rtol=1e-12)


@claim(rows=("E07.23",))
def graph_laplacian_spectrum(key, *, graphs: Size = 20):
    r"""The Laplacian of a graph: sums over edges, components, and bipartite graphs at the top.

    For $L=D-A$: $x^\top Lx=\sum_{\{i,j\}\in E}(x_i-x_j)^2\ge0$, $(Lx)_i=d_i(x_i-\text{mean of the neighbours})$, and 0
    is an eigenvalue as often as there are components. The normalised $\tilde L=I-D^{-1/2}AD^{-1/2}=D^{-1/2}LD^{-1/2}$
    has its eigenvalues in $[0,2]$, and 2 among them exactly if a component is bipartite. The coupling matrix of a GCN
    is $I-\tilde L$ of the graph with a loop at every vertex. On a grid of width $h$, $-L/h^2$ is the Laplacian of
    functions up to $O(h^2)$.
    """
    nodes = 16
    fixed = np.stack(
        [
            path_graph(nodes),
            cycle_graph(nodes),
            star_graph(nodes - 1),
            grid_graph(2, nodes // 2),
            np.pad(binary_tree(3), (0, 1)),
            disjoint_union(cycle_graph(nodes - 11), cycle_graph(11)),
            disjoint_union(complete_graph(nodes - 5), cycle_graph(5)),
            disjoint_union(complete_graph(nodes - 6), cycle_graph(6)),
            complete_graph(nodes),
        ]
    )
    fixed[4, -1, -2] = fixed[4, -2, -1] = 1.0  # the isolated vertex of the tree hangs on its last leaf
    widths = 2.0 ** -np.arange(2.0, 8.0)
    grid = jnp.asarray(np.argwhere(np.ones((5, 5))) - 2.0)

    @jax.jit
    def measure(key):
        graph_key, chance_key, x_key, point_key = jax.random.split(key, 4)
        chances = jax.random.uniform(chance_key, (graphs,), minval=0.03, maxval=0.3)
        random = jax.vmap(lambda k, p: erdos_renyi(nodes, p, key=k))(jax.random.split(graph_key, graphs), chances)
        # every isolated vertex gets a neighbour: the first, or the second for the first
        alone = (random.sum(1) == 0) & (jnp.arange(nodes) > 0)
        first = jnp.zeros((graphs, nodes, nodes)).at[:, 0, :].set(alone)
        first = first.at[:, 0, 1].max(random[:, 0].sum(1) == 0)
        a = jnp.concatenate([jnp.asarray(fixed), jnp.maximum(random, first + jnp.swapaxes(first, 1, 2))])
        x = jax.random.normal(x_key, (nodes, 2))

        def look(a):
            plain, scaled = graph_laplacian(a), graph_laplacian(a, normalised=True)
            half = jnp.diag(jax.lax.rsqrt(a.sum(1)))
            pairs = 0.5 * jnp.sum(a * (x[:, None, 0] - x[None, :, 0]) ** 2)
            local = a.sum(1)[:, None] * (x - neighbour_mean(a, x)), laplacian_apply(a, x)
            loops = a.sum(1) + 1
            other = jnp.eye(nodes) - (jnp.eye(nodes) * loops - a - jnp.eye(nodes)) / jnp.sqrt(
                loops[:, None] * loops[None]
            )
            values = jax.lax.map(jnp.linalg.eigvalsh, jnp.stack([plain, scaled]))
            forms = jnp.stack([x[:, 0] @ plain @ x[:, 0], pairs])
            return a, values, forms, local, (scaled, half @ plain @ half), (gcn_coupling(a), other)

        centre = jax.random.normal(point_key, (2,))
        f = lambda y: jnp.sin(2 * y[0]) * jnp.exp(y[1])  # noqa: E731
        lattice = jnp.asarray(grid_graph(5, 5))
        values = jax.vmap(lambda h: jax.vmap(f)(centre + h * grid))(jnp.asarray(widths))
        discrete = jax.vmap(lambda v, h: -laplacian_apply(lattice, v[:, None])[12, 0] / h**2)(
            values, jnp.asarray(widths)
        )
        return jax.lax.map(look, a), jnp.abs(discrete - laplacian(f, centre))

    (a, values, forms, local, normalised, couplings), error = jax.tree.map(np.asarray, measure(key))
    yield equal("quadratic form: sum over the edges", forms[:, 0], forms[:, 1], along="graph")
    yield equal("deviation from the mean of the neighbours, times the degree", local[1], local[0], atol=1e-11)
    yield equal("both forms of the normalised Laplacian", normalised[0], normalised[1])
    yield equal("coupling matrix of a GCN from the Laplacian with loops", couplings[0], couplings[1])
    components = [connected_components(g)[0] for g in a]
    # the smallest eigenvalue of a path of 16 that is not zero is 0.04, of the others more than 0.001
    yield equal("how often 0 is an eigenvalue: components", (np.abs(values) < 1e-9).sum(2).T, [components] * 2)
    yield at_least("smallest eigenvalues", values[:, :, 0], 0.0, atol=1e-12)
    yield at_most("largest eigenvalue of the normalised Laplacian", values[:, 1, -1], 2.0, rtol=1e-12, along="graph")
    bipartite = np.array([_bipartite_component(g) for g in a])
    yield equal("2 is an eigenvalue: a component is bipartite", values[:, 1, -1] > 2 - 1e-9, bipartite)
    yield rate("grid: difference to the Laplacian", widths, error, 2.0, tolerance=0.1, along="width of the grid")
    yield control("odd cycles alone", equal("largest eigenvalue", values[5, 1, -1], 2.0))


def _bipartite_component(a) -> bool:
    """Whether some component can be coloured with two colours, by walking through it."""
    colour = -np.ones(len(a), int)
    for start in range(len(a)):
        if colour[start] >= 0:
            continue
        colour[start], queue, fine = 0, [start], True
        while queue:
            i = queue.pop()
            for j in np.flatnonzero(a[i]):
                if colour[j] < 0:
                    colour[j] = 1 - colour[i]
                    queue.append(j)
                fine &= colour[j] != colour[i]
        if fine:
            return True
    return False
