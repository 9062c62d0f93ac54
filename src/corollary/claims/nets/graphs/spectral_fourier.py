"""Waves on graphs, and the convolution that they define."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.data import cycle_graph, erdos_renyi, path_graph
from corollary.evidence import Size, claim, control, equal, printed
from corollary.nets.graphs import GraphFourier, graph_convolve, graph_laplacian


@claim(rows=("E07.24",))
def waves_of_cycles_and_paths(key):
    r"""The graph Fourier transform is the discrete Fourier transform on a cycle and a cosine transform on a path.

    With $L=U\Lambda U^\top$: $\hat x=U^\top x$, $x=U\hat x$, and lengths are kept. On a cycle of $n$ the eigenvalues
    are $2-2\cos(2\pi k/n)$, and the spaces of equal ones are spanned by $e^{\pm2\pi ikm/n}$. On a path they are
    $2-2\cos(\pi k/n)$, $k=0..n-1$, with $\cos(\pi k(m+\frac12)/n)$ (DCT-II), which change sign exactly $k$ times: the
    eigenvalue is the square of a frequency. $\hat x^\top\Lambda\hat x=x^\top Lx$ weighs fast changes.
    """
    n = 15  # odd: but for the constant all frequencies of the cycle come in pairs
    k = np.arange(n)
    graphs = {"cycle": cycle_graph(n), "path": path_graph(n)}

    @jax.jit
    def measure(key):
        x_key, graph_key = jax.random.split(key)
        x = jax.random.normal(x_key, (n, 2))
        a = jnp.stack([*map(jnp.asarray, graphs.values()), erdos_renyi(n, 0.3, key=graph_key)])

        def look(a):
            waves = GraphFourier(graph_laplacian(a))
            spectrum = waves.forward(x)
            energy = jnp.sum(waves.frequencies[:, None] * spectrum**2), jnp.sum(x * (graph_laplacian(a) @ x))
            return waves, waves.inverse(spectrum), jnp.linalg.norm(spectrum), energy

        return jax.lax.map(look, a), x

    (waves, back, length, energy), x = jax.tree.map(np.asarray, measure(key))
    yield equal("signal from its transform", back, np.broadcast_to(x, back.shape))
    yield equal("length of the transform", length, np.linalg.norm(x))
    yield equal("sum of squares of the transform, weighed with the frequencies", energy[0], energy[1])
    around = np.sort(2 - 2 * np.cos(2 * np.pi * k / n))
    yield equal("cycle: frequencies", waves.frequencies[0], around, atol=1e-12)
    yield control("the cycle without one edge", equal("frequencies", waves.frequencies[1], around, atol=1e-12))
    yield equal("path: frequencies", waves.frequencies[1], 2 - 2 * np.cos(np.pi * k / n), atol=1e-12)
    # projections onto the spaces of equal frequencies do not depend on the basis
    basis = waves.basis[0]
    pairs = np.stack(
        [basis[:, 2 * j - 1 : 2 * j + 1] @ basis[:, 2 * j - 1 : 2 * j + 1].T for j in range(1, (n + 1) // 2)]
    )
    turn = np.subtract.outer(k, k)
    waves_of = np.stack([2 / n * np.cos(2 * np.pi * j * turn / n) for j in range(1, (n + 1) // 2)])
    yield equal("cycle: spaces of the pairs of frequencies", pairs, waves_of, atol=1e-10)
    cosines = np.cos(np.pi * np.outer(k + 0.5, k) / n)
    cosines /= np.linalg.norm(cosines, axis=0)
    signs = np.sign((waves.basis[1] * cosines).sum(0))
    yield equal("path: cosines", waves.basis[1] * signs, cosines, atol=1e-10)
    turns = (np.diff(np.sign(np.where(np.abs(waves.basis[1]) < 1e-9, 0, waves.basis[1])), axis=0) != 0).sum(0)
    # a wave that is zero at the middle vertex passes through it in two steps of the sign
    middle = (np.abs(waves.basis[1]) < 1e-9).sum(0)
    yield equal("path: changes of sign", turns - middle, k)


@claim(rows=("E07.25",))
def convolution_on_a_cycle(key, *, nodes: Size = 12):
    r"""Products in the Fourier domain are circular convolutions on a cycle, with the complex waves.

    $x*y=U(U^*x\odot U^*y)$ is commutative and linear in both. On a cycle of $n$ with the basis
    $e^{2\pi ikm/n}/\sqrt n$ it is $\frac1{\sqrt n}\sum_jx_jy_{m-j}$. With a real basis of the same eigenspaces, sines
    and cosines, it is not: where frequencies repeat, the product depends on the choice of the basis.
    """
    n, k = nodes, np.arange(nodes)
    complex_basis = np.exp(2j * np.pi * np.outer(k, k) / n) / np.sqrt(n)

    @jax.jit
    def measure(key):
        x, y, z = jax.random.normal(key, (3, n))
        lap = graph_laplacian(jnp.asarray(cycle_graph(n)))
        basis = jnp.asarray(complex_basis)
        frequencies = jnp.asarray(2 - 2 * np.cos(2 * np.pi * k / n))
        off = jnp.abs(lap @ basis - basis * frequencies).max()
        real = GraphFourier(lap).basis
        products = jnp.stack([jnp.real(graph_convolve(x, y, basis)), graph_convolve(x, y, real)])
        swapped = jnp.stack([jnp.real(graph_convolve(y, x, basis)), graph_convolve(y, x, real)])
        added = graph_convolve(x, y + 2 * z, real) - graph_convolve(x, y, real) - 2 * graph_convolve(x, z, real)
        circular = jnp.stack([jnp.sum(x * jnp.roll(y[::-1], m + 1)) for m in range(n)]) / jnp.sqrt(n)
        return products, swapped, added, circular, off

    products, swapped, added, circular, off = measure(key)
    yield equal("the waves are eigenvectors of the Laplacian", off, 0.0)
    yield equal("complex waves: circular convolution over the root of n", products[0], circular, atol=1e-11)
    yield equal("commutative, with either basis", swapped, products, atol=1e-11)
    yield equal("linear in the second signal", added, 0.0, atol=1e-11)
    yield control("real waves", equal("circular convolution", products[1], circular, atol=1e-11))


@claim(
    rows=("E07.25",),
    erratum="U times y transposed is not defined, and with U y for the transform of y the product does not commute.",
)
def printed_convolution(key, *, nodes: Size = 8):
    r"""As printed: the convolution on a graph is U(U'x * Uy'), a product in the Fourier domain.

    E defines the convolution "as pointwise multiplication in the Fourier domain", $U(U^\top x\odot Uy^\top)$.
    $U\in\mathbb R^{M\times M}$ cannot multiply the row $y^\top$. Read as $Uy$ it is not the transform of $y$: then
    $U(U^\top x\odot Uy)$ is neither that nor commutative; $U(U^\top x\odot U^\top y)$ is both.
    """

    @jax.jit
    def measure(key):
        graph_key, x_key = jax.random.split(key)
        x, y = jax.random.normal(x_key, (2, nodes))
        u = GraphFourier(graph_laplacian(erdos_renyi(nodes, 0.5, key=graph_key))).basis

        def literal(x, y):
            return u @ ((u.T @ x) * (u @ y))

        transforms = u.T @ graph_convolve(x, y, u), u.T @ literal(x, y)
        return transforms, (u.T @ x) * (u.T @ y), (graph_convolve(x, y, u), graph_convolve(y, x, u))

    (right, literal), product, swapped = measure(key)
    yield equal("corrected: its transform is the product of the transforms", right, product, atol=1e-12)
    yield equal("corrected: commutative", *swapped, atol=1e-12)
    yield printed(equal("as printed: its transform is the product of the transforms", literal, product, atol=1e-12))
