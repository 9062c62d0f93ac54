"""Expectations over Gaussian pairs: the closed forms behind the kernels of wide networks."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims.kernels._wide import unit_rows
from corollary.evidence import Count, Size, claim, control, equal, estimate, printed
from corollary.kernels import dual_derivative, dual_kernel, first_layer_ntk
from corollary.kernels.dual import activation

ANGLES = np.array([0.0, 0.4, 1.0, np.pi / 2, 2.2, np.pi])


def _pairs(key, dim, angles):
    """A random unit vector, and one at each angle from it."""
    frame = jnp.linalg.qr(jax.random.normal(key, (dim, 2)))[0].T
    return frame[0], jnp.outer(jnp.cos(angles), frame[0]) + jnp.outer(jnp.sin(angles), frame[1])


@claim(rows=("T09.09", "B07.22"))
def both_units_are_on(key, *, samples: Count = 200_000, dim: Size = 4):
    r"""A ReLU unit is on at two inputs with probability one half minus their angle over two pi.

    $\mathbb E_{w\sim\mathcal N(0,I)}[\dot\sigma(w\cdot x)\dot\sigma(w\cdot x')]=\frac{\pi-\vartheta}{2\pi}$ with the
    angle $\vartheta$ between $x$ and $x'$: $\frac12$ for $x'=x$, $\frac14$ for orthogonal inputs, 0 for $x'=-x$. Only
    the directions count, and $w$ must have one that is uniform.
    """

    @jax.jit
    def draw(key):
        frame_key, w_key = jax.random.split(key)
        x, others = _pairs(frame_key, dim, ANGLES)
        w = jax.random.normal(w_key, (samples, dim))
        scales = jnp.linspace(0.5, 2.0, ANGLES.size)[:, None]

        def on(w):
            return (((w @ x) > 0)[:, None] & ((w @ (scales * others).T) > 0)).astype(float)

        # the same weights, stretched along the first of the two inputs
        stretched = w + 3 * jnp.outer(w @ x, x)
        q12 = jnp.cos(ANGLES)
        return on(w), on(stretched), dual_derivative("relu", 1.0, q12, 1.0)

    found, stretched, closed = draw(key)
    law = (np.pi - ANGLES) / (2 * np.pi)
    yield estimate("both units are on", found, law, wrong=law[::-1] + 1e-3)
    yield equal("derivative kernel of ReLU", closed, law, x=ANGLES, along="angle")
    yield control(
        "weights of uniform direction: here stretched along one input",
        estimate("both units are on", stretched, law, wrong=0.9),
    )


@claim(
    rows=("T09.09",),
    erratum="Equation (9.8) gives the tangent kernel without the factor of the product of the two inputs.",
)
def kernel_without_the_product(key, *, nets: Count = 400, width: Size = 64):
    r"""As printed: the tangent kernel of a two-layer ReLU network is the probability that both units are on.

    Equation (9.8) has $H^*_{ij}=\mathbb E[\dot\sigma\dot\sigma]=\frac{\pi-\arccos(x_i\cdot x_j)}{2\pi}$ on unit
    vectors, where the text has just defined $H^*_{ij}=x_i\cdot x_j\,\mathbb E[\dot\sigma\dot\sigma]$. At orthogonal
    inputs it is $\frac14$, while gradients in the first layer are multiples of the inputs, hence orthogonal. With the
    factor $x_i\cdot x_j$ it is the mean of the products of gradients at every width.
    """
    angles = np.array([1.0, np.pi / 2, 2.2])

    @jax.jit
    def grams(key):
        frame_key, key = jax.random.split(key)
        x, others = _pairs(frame_key, 3, angles)

        def one(key):
            w_key, a_key = jax.random.split(key)
            w, a = jax.random.normal(w_key, (width, 3)), jax.random.rademacher(a_key, (width,), float)

            def slope(x):
                return jax.grad(lambda w: a @ jax.nn.relu(w @ x) / jnp.sqrt(width))(w)

            return jnp.sum(slope(x) * jax.vmap(slope)(others), (1, 2))

        return jax.vmap(one)(jax.random.split(key, nets))

    found, on = grams(key), (np.pi - angles) / (2 * np.pi)
    yield printed(estimate("products of gradients are the probability", found, on, wrong=-1.0))
    # at right angles the products are rounding errors about zero
    away = np.array([0, 2])
    right = np.cos(angles) * on
    yield estimate("with the product of the inputs", found[:, away], right[away], wrong=on[away])
    yield equal("at right angles", found[:, 1], right[1], atol=1e-14)


@claim(rows=("T09.08", "T09.20"))
def closed_forms(key, *, pairs: Size = 20, samples: Count = 100_000):
    r"""The dual kernels of the usual activations in closed form.

    Over $(u,v)$ Gaussian with variances $a,b$ and covariance $c$: $\mathbb E[\phi(u)\phi(v)]$ is
    $\frac{\sqrt{ab-c^2}+(\pi-\vartheta)c}{2\pi}$ for ReLU,
    $\frac2\pi\arcsin\frac{2c}{\sqrt{(1+2a)(1+2b)}}$ for erf, $e^{-(a+b)/2}\sinh c$ for the sine,
    $((1+2a)(1+2b)-4c^2)^{-1/2}$ for $e^{-z^2}$, and $\mathbb E[\phi'(u)\phi'(v)]$ is its derivative in $c$. The tangent
    kernel of the first layer is $x\cdot x'$ times the second; both are compared with averages over random units.
    """
    names = ("relu", "leaky relu", "squared relu", "erf", "gelu", "sine", "cosine", "gaussian", "softplus")

    @jax.jit
    def measure(key):
        x_key, w_key = jax.random.split(key)
        x, y = unit_rows(x_key, (2, pairs, 3)) * 0.9
        w = jax.random.normal(w_key, (samples, 3))
        u, v = w @ x.T, w @ y.T
        q = jnp.sum(x * x, 1), jnp.sum(x * y, 1), jnp.sum(y * y, 1)

        def slope(phi, t):
            return jax.jvp(phi, (t,), (jnp.ones_like(t),))[1]

        rows = []
        for name in names:
            phi = activation(name)
            # the mean over the pairs of points: one number per draw of a unit
            rows.append(
                (
                    jnp.mean(phi(u) * phi(v), 1),
                    jnp.mean(slope(phi, u) * slope(phi, v), 1),
                    jnp.mean(dual_kernel(name, *q)),
                    jnp.mean(dual_derivative(name, *q)),
                )
            )
        values, slopes, k, dot = (jnp.stack(c, -1) for c in zip(*rows, strict=True))
        tangent = jnp.mean(jnp.diagonal(first_layer_ntk(x, y)))
        gradients = jnp.mean(q[1] * (u > 0) * (v > 0), 1)
        # signs: of the same means and covariances, but not Gaussian
        signs = jnp.sign(w)
        coins = jnp.mean(jnp.cos(signs @ x.T) * jnp.cos(signs @ y.T), 1)
        return values, slopes, k, dot, gradients, tangent, coins

    values, slopes, k, dot, gradients, tangent, coins = measure(key)
    yield estimate("mean of φ(u)φ(v) by activation", values, k, wrong=k + 0.1)
    yield estimate("mean of φ'(u)φ'(v) by activation", slopes, dot, wrong=dot + 0.1)
    yield estimate("first layer's tangent kernel", gradients, tangent, wrong=tangent + 0.05)
    cosine = k[names.index("cosine")]
    yield control("normal weights: here signs", estimate("mean of cos(u)cos(v)", coins, cosine, wrong=cosine + 0.1))
