"""Kernel ridge regression as the minimum over all functions of the space, of finite dimension here."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Count, Positive, Size, at_least, claim, control, equal, printed
from corollary.kernels import FeatureKernel, KernelRidge, feature_ridge, gram, rkhs_norm


def _psi(x):
    """Polynomial features up to degree 5 of a point on the line, with weights that make the kernel smooth."""
    return 0.7 ** jnp.arange(6) * x[0] ** jnp.arange(6)


def _sample(key, n):
    x_key, noise_key = jax.random.split(key)
    x = jax.random.uniform(x_key, (n, 1), minval=-1.0, maxval=1.0)
    return x, jnp.sin(3 * x[:, 0]) + 0.2 * jax.random.normal(noise_key, (n,))


@claim(rows=("B13.12", "B13.13"))
def representer(key, *, n: Size = 4, penalty: Positive = 0.05, draws: Count = 40):
    r"""Of all functions of the space the best one for data and norm is a sum of kernels at the data.

    For $k(x,x')=\langle\phi(x),\phi(x')\rangle$ the minimum over $f=\langle v,\phi(\cdot)\rangle$ of
    $\frac1n\sum_i(y_i-f(x_i))^2+\lambda\|v\|^2$ is at $f=\sum_iw_ik(\cdot,x_i)$, $w=(K+n\lambda I)^{-1}y$: the same as
    $\phi(x)^\top(\Phi^\top\Phi+n\lambda I)^{-1}\Phi^\top y$, and every other $v$, inside the span of the $\phi(x_i)$
    or not, has a larger value. Its norm is $\sqrt{w^\top Kw}$. With the penalty on $\|w\|^2$ instead the solution is
    another one. (The space has six dimensions here.)
    """

    @jax.jit
    def measure(key):
        data_key, v_key = jax.random.split(key)
        x, y = _sample(data_key, n)
        psi, kernel = jax.vmap(_psi)(x), FeatureKernel(_psi)
        # the house's objective has half the squares: C = λ/2
        fitted = KernelRidge.fit(kernel, x, y, penalty / 2)
        v = feature_ridge(psi, y, penalty / 2)
        new = jnp.linspace(-1.5, 1.5, 31)[:, None]
        k = gram(kernel, x)
        objective = lambda v: jnp.mean((y - psi @ v) ** 2) + penalty * v @ v  # noqa: E731
        w = fitted.alpha
        best = psi.T @ w
        other = best + jax.random.normal(v_key, (draws, 6)) * 10.0 ** jnp.linspace(-3, 1, draws)[:, None]
        outside = jnp.linalg.svd(psi)[2][n:]  # directions that no feature vector of the data has a part in
        small = jnp.linalg.solve(k @ k + n * penalty * jnp.eye(n), k @ y)
        at_new = gram(kernel, new, x)
        return {
            "predictions": (jax.vmap(fitted)(new), jax.vmap(_psi)(new) @ v),
            "gradient": jax.grad(objective)(best),
            "others": jax.vmap(objective)(other) - objective(best),
            "outside": jax.vmap(objective)(best + outside) - objective(best),
            "norm": (rkhs_norm(w, k), jnp.linalg.norm(v)),
            "on the coefficients": (at_new @ small, jax.vmap(_psi)(new) @ v),
        }

    m = measure(key)
    # systems of condition number 1/λ or so
    yield equal("predictions: from the kernel and from the features", *m["predictions"], atol=1e-11)
    yield equal("gradient at the sum of kernels", m["gradient"], 0.0, atol=1e-11)
    yield at_least("value elsewhere, above the least", m["others"], 0.0)
    yield equal("value one step outside the span, above the least", m["outside"], penalty)
    yield equal("norm, from the coefficients and from the weights", *m["norm"], rtol=1e-9)
    yield control(
        "the norm of the function is penalised: here that of the coefficients",
        equal("predictions", *m["on the coefficients"], atol=1e-11),
    )


@claim(
    rows=("B13.12",),
    erratum="The inner product of the space is not the integral of the product.",
)
def inner_product_as_printed(key, *, n: Size = 6):
    r"""The inner product of the space of a kernel is the integral of the product of two functions.

    As printed, $\langle f,g\rangle_{\mathcal H}=\int f(x)g(x)dx$. The space is the one in which
    $\langle k(\cdot,x),k(\cdot,x')\rangle=k(x,x')$, and that integral gives another number (here over $[-1,1]$, for
    a kernel of six features); for $f=\sum_ia_ik(\cdot,x_i)$ and $g=\sum_ib_ik(\cdot,x_i)$ the product is $a^\top Kb$,
    that of their feature vectors.
    """
    nodes, weights = np.polynomial.legendre.leggauss(12)  # exact for the products, of degree 10

    @jax.jit
    def measure(key):
        x_key, a_key, b_key = jax.random.split(key, 3)
        x = jax.random.uniform(x_key, (n, 1), minval=-1.0, maxval=1.0)
        kernel = FeatureKernel(_psi)
        k, at = gram(kernel, x), gram(kernel, x, jnp.asarray(nodes)[:, None])
        a, b = jax.random.normal(a_key, (n,)), jax.random.normal(b_key, (n,))
        psi = jax.vmap(_psi)(x)
        return (at * weights) @ at.T, k, a @ k @ b, (a @ psi) @ (b @ psi)

    integral, k, product, of_features = measure(key)
    yield printed(equal("product of two kernels, as an integral", integral, k))
    yield equal("product of two sums of kernels", product, of_features)
