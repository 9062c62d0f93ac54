"""Coupling flows: densities that integrate to one, determinants that add, and what the text misprints."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from corollary.evidence import Size, at_least, claim, control, equal, estimate, printed
from corollary.foundations import panels
from corollary.generative import AdditiveCoupling, AffineCoupling, Inverted, Invertible1x1, NormalisingFlow

MASK = np.array([True, False])


def _gentle(key, inputs, outputs):
    """A random network of bounded outputs, so that the densities have no narrow ridges."""
    network = eqx.nn.MLP(inputs, outputs, 8, 1, activation=jnp.tanh, final_activation=jnp.tanh, key=key)
    return lambda z: 0.7 * network(z)


def _flow(key, layers=4):
    """Couplings of the plane with alternating sets, and a matrix that mixes the coordinates."""
    keys = jax.random.split(key, layers)
    couplings = [AffineCoupling(MASK ^ (i % 2 == 1), _gentle(k, 2, 4)) for i, k in enumerate(keys)]
    turn = Invertible1x1(jnp.array([[0.8, -0.6], [0.6, 0.8]]))
    return NormalisingFlow([*couplings[:2], turn, *couplings[2:]], 2)


class _Cubic(eqx.Module):
    """z₁ ↦ z₁³ - 3z₁ in the first coordinate: three points have the same image near 0, one far away."""

    def forward(self, z):
        return z.at[0].set(z[0] ** 3 - 3 * z[0]), jnp.log(jnp.abs(3 * z[0] ** 2 - 3))

    def inverse(self, z):
        return z


@claim(rows=("T14.17",))
def change_of_variables(key, *, points: Size = 50, draws: Size = 20_000):
    r"""The density of an invertible map of a normal variable is the normal density there times the determinant.

    $h=f(x)\sim N(0,I)$ with $f$ invertible and smooth: $\rho(x)=\mu(f(x))|\det J_f(x)|$. For random coupling flows of
    the plane $f^{-1}(f(x))=x$, $\rho$ integrates to one, and samples $f^{-1}(h)$ fall into a half-plane as often as the
    integral of $\rho$ over it says. A map that is not one-to-one has no such density: after $t^3-3t$ in one coordinate
    the integral counts every point as often as it is reached.
    """

    @jax.jit
    def measure(key):
        f_key, x_key, s_key = jax.random.split(key, 3)
        flow = _flow(f_key)
        x = 2 * jax.random.normal(x_key, (points, 2))
        back = jax.vmap(lambda x: flow.inverse(flow.forward(x)[0]))(x)
        nodes, weights = panels(jnp.linspace(-40.0, 40.0, 81), 6)
        grid = jnp.stack(jnp.meshgrid(nodes, nodes, indexing="ij"), -1).reshape(-1, 2)
        area = jnp.outer(weights, weights).ravel()
        density = jnp.exp(jax.vmap(flow.log_prob)(grid))
        folded = NormalisingFlow([*flow.layers, _Cubic()], 2)
        many = jnp.exp(jax.vmap(folded.log_prob)(grid))
        inside = jnp.where(grid[:, 0] > 0, 1.0, 0.0)
        hits = flow.sample(draws, key=s_key)[:, 0] > 0
        return x, back, area @ density, (area * inside) @ density, hits, area @ many

    x, back, total, half, hits, many = measure(key)
    yield equal("there and back", back, x, rtol=0, atol=1e-10)
    # Gauss' rule of 6 points on squares of side 1, for a density whose scale is about that of the normal one
    yield equal("integral of the density", total, 1.0, rtol=0, atol=1e-4)
    yield estimate("share of samples in a half-plane", np.asarray(hits, float), half, wrong=half + 0.05)
    yield control(
        "one-to-one: here three points to one", equal("integral of the density", many, 1.0, rtol=0, atol=1e-4)
    )


def _stack(key, dim):
    """Layers of each kind on vectors."""
    keys = jax.random.split(key, 4)
    mask = np.arange(dim) % 2 == 0
    matrix = jnp.eye(dim) + 0.5 * jax.random.normal(keys[0], (dim, dim)) / np.sqrt(dim)
    return (
        AffineCoupling(mask, _gentle(keys[1], dim, 2 * dim)),
        Invertible1x1(matrix),
        AdditiveCoupling(~mask, _gentle(keys[2], dim, dim)),
        Inverted(AffineCoupling(~mask, _gentle(keys[3], dim, 2 * dim))),
    )


@claim(rows=("T14.18",))
def log_determinants_add(key, *, dim: Size = 6, points: Size = 20):
    r"""The logarithm of the determinant of a chain of maps is the sum over the maps, each at its own input.

    $\det J_{f_L\circ\dots\circ f_1}(x)=\prod_l\det J_{f_l}(z_l)$, $z_1=x$, $z_{l+1}=f_l(z_l)$, for random affine and
    additive couplings, an inverse of one, and a matrix: the sum of the layers' own formulas against the dense Jacobian
    of the whole chain by central differences. With every factor taken at $x$ it is another number.
    """
    step = 1e-4

    @jax.jit
    def measure(key):
        f_key, x_key = jax.random.split(key)
        layers = _stack(f_key, dim)
        flow = NormalisingFlow(layers, dim)

        def one(x):
            moves = step * jnp.eye(dim)
            run = jax.vmap(lambda x: flow.forward(x)[0])
            dense = (run(x - 2 * moves) - 8 * run(x - moves) + 8 * run(x + moves) - run(x + 2 * moves)) / (12 * step)
            return flow.forward(x)[1], dense, sum(layer.forward(x)[1] for layer in layers)

        return jax.vmap(one)(jax.random.normal(x_key, (points, dim)))

    total, dense, at_start = measure(key)
    whole = np.linalg.slogdet(np.asarray(dense))[1]
    # differences of fourth order: 1e-16 of the step from the truncation, 1e-12 from the rounding, times six entries
    yield equal("sum over the layers against the whole Jacobian", total, whole, rtol=0, atol=1e-8)
    yield control(
        "each factor at the input of its layer: here at x",
        equal("sum over the layers", at_start, whole, rtol=0, atol=1e-8),
    )


@claim(rows=("T14.19",))
def coupling_layers(key, *, dim: Size = 6, points: Size = 20):
    r"""A coupling layer has a triangular Jacobian, the product of its scales as determinant, and an explicit inverse.

    $z_A\mapsto z_A$, $z_B\mapsto z_B\odot e^{r(z_A)}+s(z_A)$: the rows of $A$ in the Jacobian are those of the
    identity, the block of $B$ by $B$ is $\mathrm{diag}(e^{r(z_A)})$. With $r=0$ volumes stay. Two layers
    whose sets $A$ are complements move every coordinate; two with the same set leave half of them where they were.
    """
    mask = np.arange(dim) % 2 == 0

    @jax.jit
    def measure(key):
        keys = jax.random.split(key, 4)
        network, other = _gentle(keys[0], dim, 2 * dim), _gentle(keys[1], dim, 2 * dim)
        affine = AffineCoupling(mask, network)
        additive = AdditiveCoupling(mask, _gentle(keys[2], dim, dim))
        both = NormalisingFlow([affine, AffineCoupling(~mask, other)], dim)
        same = NormalisingFlow([affine, AffineCoupling(mask, other)], dim)

        def one(x):
            jacobian = lambda layer: jax.jacfwd(lambda x: layer.forward(x)[0])(x)  # noqa: E731
            scales = jnp.exp(network(jnp.where(mask, x, 0))[:dim])
            back = affine.inverse(affine.forward(x)[0]), additive.inverse(additive.forward(x)[0])
            moved = jnp.abs(both.forward(x)[0] - x), jnp.abs(same.forward(x)[0] - x)
            return jacobian(affine), jacobian(additive), scales, affine.forward(x)[1], jnp.stack(back), moved

        x = jax.random.normal(keys[3], (points, dim))
        return x, jax.vmap(one)(x)

    x, (affine, additive, scales, log_det, back, (both, same)) = measure(key)
    affine, scales, a, b = np.asarray(affine), np.asarray(scales), np.flatnonzero(mask), np.flatnonzero(~mask)
    yield equal(
        "rows of the part that stays", affine[:, a], np.broadcast_to(np.eye(dim)[a], affine[:, a].shape), atol=0
    )
    diagonal = scales[:, b, None] * np.eye(b.size)
    yield equal("block of the part that moves", affine[:, b][:, :, b], diagonal)
    yield equal("logarithm of the determinant", log_det, np.linalg.slogdet(affine)[1])
    yield equal("determinant of the additive layer", np.linalg.det(np.asarray(additive)), 1.0)
    yield equal("there and back", back, np.stack([x, x], 1), rtol=0, atol=1e-10)
    yield at_least("largest move of each coordinate", np.max(both, 0), 1e-3)
    yield control(
        "sets that are complements: here the same", at_least("largest move of each coordinate", np.max(same, 0), 1e-3)
    )


@claim(rows=("T14.19",), erratum="The printed inverse multiplies by the scales by which it has to divide.")
def printed_inverse_coupling(key, *, dim: Size = 6, points: Size = 20):
    r"""The inverse of an affine coupling subtracts the shift and divides by the scales.

    As printed: $z_B=(z'_B-s(z_A))\odot h(z_A)$, with $h=e^r$. Of $z'_B=z_B\odot h(z_A)+s(z_A)$ it makes
    $z_B\odot h^2$; with $\oslash h(z_A)$ it is $z_B$ again.
    """
    mask = np.arange(dim) % 2 == 0

    @jax.jit
    def measure(key):
        n_key, x_key = jax.random.split(key)
        network = _gentle(n_key, dim, 2 * dim)
        layer = AffineCoupling(mask, network)

        def one(x):
            out = layer.forward(x)[0]
            r, s = jnp.split(network(jnp.where(mask, out, 0)), 2)
            return jnp.where(mask, out, (out - s) * jnp.exp(r)), layer.inverse(out)

        x = jax.random.normal(x_key, (points, dim))
        return x, jax.vmap(one)(x)

    x, (product, quotient) = measure(key)
    yield printed(equal("there and back with the product", product, x, rtol=0, atol=1e-10))
    yield equal("there and back with the quotient", quotient, x, rtol=0, atol=1e-10)


@claim(rows=("T14.20",), erratum="A 1x1 convolution mixes the channels of a pixel: its Jacobian is not diagonal.")
def printed_diagonal_convolution(key, *, channels: Size = 3, side: Size = 4):
    r"""The Jacobian of a 1x1 convolution has the matrix of the channels as its block for each pixel.

    As printed, such filters only scale the channels, and the Jacobian is diagonal. It is $W\otimes I$: zero between
    different pixels, $W$ within one, and $\ln|\det J|=n\ln|\det W|$ for $n$ pixels.
    """

    @jax.jit
    def measure(key):
        w_key, x_key = jax.random.split(key)
        matrix = jnp.eye(channels) + 0.5 * jax.random.normal(w_key, (channels, channels))
        layer = Invertible1x1(matrix)
        x = jax.random.normal(x_key, (channels, side, side))
        dense = jax.jacfwd(lambda x: layer.forward(x)[0])(x).reshape(x.size, x.size)
        return matrix, dense, layer.forward(x)[1], layer.inverse(layer.forward(x)[0]) - x

    matrix, dense, log_det, error = (np.asarray(a) for a in measure(key))
    pixels = side**2
    yield printed(equal("entries beside the diagonal", dense[~np.eye(len(dense), dtype=bool)], 0.0))
    yield equal("Jacobian", dense, np.kron(matrix, np.eye(pixels)))
    yield equal("logarithm of the determinant", log_det, np.linalg.slogdet(dense)[1], atol=1e-10)
    # rounding times the condition of a random 3x3 matrix, which is seldom above 1e3
    yield equal("there and back", error, 0.0, atol=1e-10)


@claim(rows=("T14.22",))
def density_of_a_coupling_map(key, *, points: Size = 50, draws: Size = 20_000):
    r"""The density of a quadratic coupling of four normal variables.

    $z\sim N(0,I_4)$ and $f(z)=(z_1,z_2,e^{a_0}z_3+a_1z_1^2+a_2z_2^2,e^{b_0}z_4+b_1z_1^2+b_2z_2^2)$ has the density
    $\varphi(y_1)\varphi(y_2)e^{-a_0}\varphi(e^{-a_0}(y_3-a_1y_1^2-a_2y_2^2))e^{-b_0}\varphi(e^{-b_0}(y_4-b_1y_1^2-b_2y_2^2))$.
    Samples have the moments that follow: $\mathbb Ey_3=a_1+a_2$, and the covariance of $y_3$ and $y_4$ is
    $2(a_1b_1+a_2b_2)$.
    """

    @jax.jit
    def measure(key):
        c_key, y_key, s_key = jax.random.split(key, 3)
        a, b = jax.random.uniform(c_key, (2, 3), minval=0.5, maxval=1.0)

        def network(z):
            squares = jnp.array([0.0, 0.0, a[1:] @ z[:2] ** 2, b[1:] @ z[:2] ** 2])
            return jnp.concatenate([jnp.array([0.0, 0.0, a[0], b[0]]), squares])

        flow = NormalisingFlow([Inverted(AffineCoupling([True, True, False, False], network))], 4)
        y = jax.random.normal(y_key, (points, 4))
        return a, b, y, jax.vmap(flow.log_prob)(y), flow.sample(draws, key=s_key)

    a, b, y, found, drawn = (np.asarray(v) for v in measure(key))
    squares = y[:, :2] ** 2
    exact = stats.norm.logpdf(y[:, :2]).sum(1)
    exact += stats.norm.logpdf(y[:, 2], squares @ a[1:], np.exp(a[0]))
    exact += stats.norm.logpdf(y[:, 3], squares @ b[1:], np.exp(b[0]))
    yield equal("log-density against the closed form", found, exact, rtol=1e-12)
    means, both = np.array([a[1:].sum(), b[1:].sum()]), 2 * a[1:] @ b[1:]
    yield estimate("means of the last two", drawn[:, 2:], means, wrong=0.0)
    centred = drawn[:, 2:] - means
    yield estimate("their covariance", centred[:, 0] * centred[:, 1], both, wrong=0.0)
