"""Gradients of deep linear networks, and their expected size with random weights (B section 6.2)."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims.landscape._enumeration import all_signs
from corollary.evidence import Range, Size, at_least, at_most, claim, control, equal, estimate, printed, rate
from corollary.landscape import (
    deep_linear_gradients,
    expected_gradient_norms,
    gaussian_gradient_bound,
    gaussian_gradient_norm,
    matrix_jacobian,
    squared_product_moments,
)


def _network(key, d, L):
    w_key, x_key, y_key = jax.random.split(key, 3)
    return jax.random.normal(w_key, (L, d, d)), jax.random.normal(x_key, (d,)), jax.random.normal(y_key, (d,))


def _autodiff(weights, x, y, unit=lambda z: z):
    def loss(weights):
        out = x
        for w in weights[:-1]:
            out = unit(w @ out)
        out = weights[-1] @ out
        return 0.5 * jnp.sum((out - y) ** 2)

    return jax.grad(loss)(weights)


@claim(rows=("B06.13", "B06.15"))
def gradient_map(key, *, dim: Annotated[int, Range(2, 10)] = 4, depth: Annotated[int, Range(2, 6)] = 4):
    r"""The gradient by a layer of a linear network is what comes back times what came forward.

    For $\ell=\frac12\|W^{L:1}x-y\|^2$ and $\delta=W^{L:1}x-y$, $\frac{\partial\ell}{\partial
    W^k}=(W^{k+1:L}\delta)(W^{k-1:1}x)^\top=W^{k+1:L}[W^{L:1}xx^\top-yx^\top]W^{1:k-1}$. With stacked columns
    $\frac{\partial Az}{\partial\mathrm{vec}A}=z^\top\otimes I$, so that $\frac{\partial\hat
    y}{\partial\mathrm{vec}W^k}=W^{L:k+1}(z^\top\otimes I)$ for $z=W^{k-1:1}x$; with stacked rows, $I\otimes z^\top$.
    """

    @jax.jit
    def measure(key):
        weights, x, y = _network(key, dim, depth)
        ours = jnp.stack(deep_linear_gradients(list(weights), x, y))
        jacobian = jax.jacobian(lambda a: a @ x)(weights[0])
        return ours, _autodiff(weights, x, y), jacobian, x, _autodiff(weights, x, y, jnp.tanh)

    ours, exact, jacobian, x, bent = measure(key)
    yield equal("gradients against automatic differentiation", ours, exact)
    yield equal("stacked columns", matrix_jacobian(x, dim), jacobian.transpose(0, 2, 1).reshape(dim, -1))
    yield equal("stacked rows", matrix_jacobian(x, dim, "row"), jacobian.reshape(dim, -1))
    yield control("linear layers: here tanh between them", equal("gradients", ours, bent))


@claim(
    rows=("B06.15",),
    erratum="The last formula of the derivation has z, the input of layer k, in one term where x belongs.",
)
def printed_gradient(key, *, dim: Annotated[int, Range(2, 10)] = 4):
    r"""The gradient by layer k with the layer's own input in the first term.

    As printed at the end of the derivation: "we can express this as" $\frac{\partial\ell}{\partial
    W^k}=W^{k+1:L}[W^{L:1}xz^\top-yx^\top]W^{1:k-1}$ with $z=W^{k-1:1}x$. For $k\ge2$ that multiplies by
    $W^{1:k-1}$ what has passed these layers already. With $x$ in both terms it is the gradient.
    """
    weights, x, y = _network(key, dim, 3)
    exact = _autodiff(weights, x, y)[1]
    z, out = weights[0] @ x, weights[2] @ weights[1] @ weights[0] @ x

    def formula(forward):
        return weights[2].T @ (jnp.outer(out, forward) - jnp.outer(y, x)) @ weights[0].T

    yield printed(equal("gradient by the second of three layers, with z", exact, formula(z)))
    yield equal("gradient by the second of three layers, with x", exact, formula(x))


@claim(rows=("B06.19", "B06.20"))
def gradient_norms(key, *, networks: Size = 20_000):
    r"""The expected gradient norm of a random linear network, exactly, and the bounds of the text.

    For independent weights of mean 0 and variance $\sigma^2$, $\mathbb E\|\frac{\partial\ell}{\partial
    W^k}\|_F^2=\sigma^2\,\mathbb E\|W^{k-1:1}x\|_2^4\,\mathbb
    E\|W^{k+1:L}W^{L:k+1}\|_F^2+(d\sigma^2)^{L-1}\|x\|^2\|y\|^2$; Lemma 51 has twice that as a bound. For normal
    weights this is at most $\frac{2\rho}{3\sigma^2}[\sigma^4d(d+2)]^L+2\gamma(\sigma^2d)^{L-1}$ (Theorem 52), with
    $\rho=\|x\|^4$, $\gamma=\|x\|^2\|y\|^2$, because $\mathbb
    E\|W^{1:m}W^{m:1}\|_F^2=\frac{\sigma^{4m}}3[(d(d+2))^{m+1}-(d(d-1))^{m+1}]$.
    """
    x, y = np.array([1.0, -0.5, 0.3]), np.array([0.5, 1.0, -1.0])
    d, L, variance = 3, 3, 1 / 3
    signs = all_signs(3, 2, 2)  # three layers of two units: 4096 networks

    @jax.jit
    def measure(key):
        def norms(weights, x, y):
            return jnp.sum(_autodiff(weights, x, y) ** 2, axis=(1, 2))

        normal = variance**0.5 * jax.random.normal(key, (networks, L, d, d))
        enumerated = jax.vmap(lambda w: norms(w, x[:2], y[:2]))(0.6 * signs)
        return jax.vmap(lambda w: norms(w, x, y))(normal), enumerated.mean(0)

    sampled, enumerated = measure(key)
    predicted = expected_gradient_norms(x, y, [d] * L, variance)
    bound = gaussian_gradient_bound(d, L, variance, np.sum(x**2) ** 2, np.sum(x**2) * np.sum(y**2))
    yield estimate("normal weights", sampled, predicted, wrong=2 * predicted)
    small = expected_gradient_norms(x[:2], y[:2], [2] * L, 0.36, 1.0)
    yield equal("signs, all 4096 networks", enumerated, small, along="layer")
    m = np.arange(8)
    closed = variance ** (2 * m) / 3 * ((d * (d + 2.0)) ** (m + 1) - (d * (d - 1.0)) ** (m + 1))
    yield equal("squared products of normal matrices", squared_product_moments([d] * 8, variance)[::-1], closed)
    yield at_most("normal weights, bound of Theorem 52", sampled.mean(0), bound, along="layer")
    depths = range(1, 13)
    data = variance, np.sum(x**2) ** 2, np.sum(x**2) * np.sum(y**2)
    exact = [gaussian_gradient_norm(d, n, 1, *data) for n in depths]
    bounds = [gaussian_gradient_bound(d, n, *data) for n in depths]
    yield equal("closed form for the three layers", gaussian_gradient_norm(d, L, np.arange(1, L + 1), *data), predicted)
    yield at_most("first layer, exact, against the bound", exact, bounds, x=np.array(depths), along="depth")
    yield control(
        "normal weights: here signs",
        equal("all 4096 networks", enumerated, expected_gradient_norms(x[:2], y[:2], [2] * L, 0.36, 3.0)),
    )


@claim(rows=("B06.20",))
def which_term_dominates(key, *, dim: Annotated[int, Range(2, 50)] = 5):
    r"""With depth the output takes over the gradient as soon as the variance exceeds 1/(d + 2).

    For normal weights the term with $\hat y$ grows like $[\sigma^4d(d+2)]^L$ and that with $y$ like $[\sigma^2d]^L$:
    their ratio like $[\sigma^2(d+2)]^L$. So $\hat y$ dominates deep networks exactly if $\sigma^2>\frac1{d+2}$, and
    explodes exactly if $\sigma^4>\frac1{d(d+2)}$. At $\sigma^2=\frac1d$ the first is $(1+\frac2d)^L$: stable only while
    $L\ll d$. (B lets $y$ dominate "for small weight initializations" and $\hat y$ "for large $\sigma^4>d(d+2)$": that
    is true, and far from the threshold.)
    """
    depths = np.arange(10, 31, 4)
    variances = {"below 1/(d+2)": 0.8 / (dim + 2), "above 1/(d+2)": 1.2 / (dim + 2), "Xavier": 1 / dim}
    for name, variance in variances.items():
        # without target only the first term is left; the rest is the second
        first, total = (
            np.array([float(gaussian_gradient_norm(dim, int(n), n // 2, variance, 1.0, gamma)) for n in depths])
            for gamma in (0.0, 1.0)
        )
        slope = np.log(variance * (dim + 2))
        ratio = first / (total - first)
        yield rate(
            f"ŷ over y, {name}",
            depths,
            ratio,
            slope,
            tolerance=0.05 * abs(slope) + 0.02,
            axes="semi-log",
            along="depth",
        )
        if name == "Xavier":
            grown = np.log1p(2 / dim)
            yield rate("ŷ, Xavier", depths, first, grown, tolerance=0.1 * grown + 0.02, axes="semi-log", along="depth")
        elif name == "above 1/(d+2)":
            yield at_least("ŷ over y in a deep network", ratio[-1], 1.0)
        else:
            yield control(
                "a variance above 1/(d + 2): here below", at_least("ŷ over y in a deep network", ratio[-1], 1.0)
            )
