"""The curvature of a network from products alone: extreme eigenvalues, the trace and the spectral density."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Count, Size, at_most, claim, control, equal, estimate
from corollary.landscape import eigenpairs, spectral_density


@claim(rows=("T02.38",))
def spectrum_from_products(key, *, width: Size = 6, points: Size = 30, probes: Count = 4000):
    r"""Products with random vectors tell the trace, the spectral density and the extreme eigenvalues of a Hessian.

    Let $H$ be symmetric with eigenvalues $\lambda_i$, $z$ a vector of independent random signs, and $\theta_j$,
    $\tau_j$ the eigenvalues and squared first entries of the eigenvectors of the tridiagonal matrix of $s$ Lanczos
    steps from a unit vector $v$. Then $\mathbb E\,z^\top Hz=\mathrm{tr}\,H$ with variance $2\sum_{i\ne j}H_{ij}^2$;
    $\sum_j\tau_j\theta_j^k=v^\top H^kv$ for all $k\le2s-1$, the mean of which over uniform $v$ is
    $\frac1p\mathrm{tr}\,H^k$; and within the residual $\|Hu-\theta u\|$ of a Ritz value there is an eigenvalue.
    Lanczos finds both ends of the spectrum, with their sign. Here $H$ is the Hessian of a small tanh network. Signs
    that are not independent see another trace, and beyond $2s-1$ the quadrature is not exact.
    """
    steps = 5

    @jax.jit
    def measure(key):
        w_key, x_key, y_key, z_key, v_key = jax.random.split(key, 5)
        size = 2 * width + width + width
        theta = jax.random.normal(w_key, (size,))
        x, y = jax.random.normal(x_key, (points, 2)), jax.random.normal(y_key, (points,))

        def loss(theta):
            w, b, a = theta[: 2 * width].reshape(2, width), theta[2 * width : 3 * width], theta[3 * width :]
            return 0.5 * jnp.mean((jnp.tanh(x @ w + b) @ a - y) ** 2)

        hessian = jax.hessian(loss)(theta)
        product = jax.linearize(jax.grad(loss), theta)[1]
        z = jax.random.rademacher(z_key, (probes, size)).astype(theta.dtype)
        forms = jax.vmap(lambda z: z @ product(z))(z)
        equal_signs = jax.vmap(lambda z: z @ product(z))(z[:, :1] * jnp.ones(size))
        found = spectral_density(product, size, key=v_key, probes=200, steps=steps)
        powers = jnp.arange(2 * steps + 2)
        scale = jnp.max(jnp.abs(found.nodes))
        quadrature = jnp.einsum("ps,psk->pk", found.weights, (found.nodes / scale)[..., None] ** powers)
        start = jax.vmap(lambda k: jax.random.normal(k, (size,)))(jax.random.split(v_key, 200))
        start = start / jnp.linalg.norm(start, axis=1, keepdims=True)
        chain = [start]
        for _ in range(2 * steps + 1):
            chain.append(chain[-1] @ hessian / scale)
        exact = jnp.stack([jnp.sum(start * c, axis=1) for c in chain], axis=1)
        ends = eigenpairs(product, size, 2, which="both", key=z_key)
        return hessian, forms, equal_signs, quadrature, exact, ends

    hessian, forms, same, quadrature, exact, ends = jax.tree.map(np.asarray, measure(key))
    spectrum = np.linalg.eigvalsh(hessian)
    off = 2 * (np.sum(hessian**2) - np.sum(np.diag(hessian) ** 2))
    spread = np.sqrt(off)
    yield estimate("quadratic form in random signs", forms, np.trace(hessian), wrong=np.trace(hessian) + 0.2 * spread)
    squares = (forms - np.trace(hessian)) ** 2
    yield estimate("its variance", squares, off, wrong=2 * off)
    # sums of s terms of size one, through an eigendecomposition: a few hundred roundings
    yield equal(
        "moments of the quadrature, k up to 2s - 1", quadrature[:, : 2 * steps], exact[:, : 2 * steps], atol=1e-12
    )
    yield equal("both ends of the spectrum", ends.values, spectrum[[-1, 0]], rtol=1e-9, atol=1e-9)
    nearest = np.min(np.abs(ends.values[:, None] - spectrum), axis=1)
    yield at_most("distance to the nearest eigenvalue", nearest, ends.residuals, atol=1e-12)
    yield control(
        "independent signs: here one for all coordinates",
        equal("mean of the quadratic form", same.mean(), np.trace(hessian), rtol=0, atol=0.05 * spread),
    )
    gap = np.abs(quadrature[:, 2 * steps] - exact[:, 2 * steps]).max()
    yield control("moments below 2s: here the moment 2s", at_most("error of the quadrature", gap, 1e-12))
