"""Gram matrices, their low-rank approximation, and the features behind a kernel."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, monotone, rate
from corollary.kernels import (
    ArcCosineKernel,
    BrownianKernel,
    GaussianKernel,
    LaplaceKernel,
    LinearKernel,
    PolynomialKernel,
    brownian_eigenfunctions,
    brownian_eigenvalues,
    definiteness,
    feature_cost,
    gram,
    gram_cost,
    mercer,
    mercer_features,
    monomial_count,
    monomial_features,
    nystrom,
    truncated,
    truncation_error,
)

KERNELS = {
    "linear": LinearKernel,
    "cubic": lambda: PolynomialKernel(3, 1.0),
    "Gaussian": GaussianKernel,
    "Laplace": LaplaceKernel,
    "arc-cosine 0": lambda: ArcCosineKernel(0),
    "arc-cosine 1": ArcCosineKernel,
}


@claim(rows=("M04.09", "M04.10", "B07.01", "T03.10"))
def gram_is_semidefinite(key, *, sets: Count = 30, n: Size = 25, dim: Size = 3):
    r"""Every Gram matrix is positive semidefinite.

    If $K(x,x')=\psi(x)\cdot\psi(x')$ then $\xi^\top G\xi=\|\sum_m\xi_m\psi(x_m)\|^2\ge0$ for every $\xi$. So it is for
    the linear, polynomial, Gaussian, Laplace and arc-cosine kernels; conversely a semidefinite $G=FF^\top$ is the Gram
    matrix of the rows of $F$. It is not for $-\|x-x'\|^2$ nor for $\tanh(x\cdot x'-1)$, of which $\xi^\top G\xi<0$ for
    some $\xi$.
    """
    x_key, xi_key = jax.random.split(key)
    x = jax.random.normal(x_key, (sets, n, dim))
    xi = jax.random.normal(xi_key, (sets, n))

    def far(a, b):
        return -jnp.sum((a - b) ** 2)

    def squashed(a, b):
        return jnp.tanh(a @ b - 1)

    @jax.jit
    def measure(x, xi):
        def one(kernel):
            def of_set(x):
                g = gram(kernel, x)
                proof = definiteness(g)
                form = proof.witness @ g @ proof.witness
                return proof.smallest / jnp.abs(g).max(), form, jnp.abs(g - g.T).max(), proof.factor, g

            # one after the other: batches of eigenproblems side by side can block each other
            return jax.lax.map(of_set, x)

        def forms(x, xi):
            psi = jax.vmap(lambda p: monomial_features(p, 3))(x)
            return xi @ gram(PolynomialKernel(3), x) @ xi, jnp.sum((xi @ psi) ** 2)

        found = [one(make()) for make in KERNELS.values()]
        return found, jax.vmap(forms)(x, xi), one(far), one(squashed)

    found, (form, square), distance, tanh = measure(x, xi)
    yield equal("ξᵀGξ and the norm of the summed features, cubic", form, square)
    # eigenvalues round at n eps of the largest, itself at most n times the largest entry
    rounding = n**2 * 2.3e-16
    for name, (smallest, _, asymmetry, factor, g) in zip(KERNELS, found, strict=True):
        yield at_least(f"smallest eigenvalue over the largest entry, {name}", smallest, 0.0, atol=rounding)
        yield equal(f"features of the matrix, {name}", factor @ factor.swapaxes(1, 2), g, atol=1e-12 * float(g.max()))
        yield equal(f"symmetry, {name}", asymmetry, 0.0, rtol=0, atol=1e-14 * float(g.max()))
    yield control(
        "a positive semidefinite kernel: here -‖x - x'‖²", at_least("ξᵀGξ at the witness", distance[1], 0.0, atol=1e-9)
    )
    yield control(
        "a positive semidefinite kernel: here tanh(x·x' - 1)",
        at_least("smallest eigenvalue over the largest entry", tanh[0], 0.0, atol=1e-9),
    )


@claim(rows=("M04.12",), full={"n": 400})
def low_rank(key, *, n: Size = 80, draws: Count = 12):
    r"""A few columns of a Gram matrix give the rest: exactly where its rank is small, and better the more there are.

    The Nyström approximation $G_{\cdot L}G_{LL}^+G_{L\cdot}$ from the columns of landmarks $L$ is exact if $L$ spans
    the features: for $(x\cdot x')^2$ in $\mathbb R^3$, of rank 6, any six points in general position suffice. Otherwise
    its error falls as landmarks are added and is never below $\|G-G_r\|_F$, the best that a matrix of rank $r=|L|$ can
    do. The Gram form computes and keeps $M^2$ kernel values, the feature form $M\dim\psi$ features.
    """
    x = jax.random.normal(key, (draws, n, 3))
    ranks = np.array([2, 4, 8, 16, 32])

    @jax.jit
    def measure(x):
        return jax.lax.map(one, x)

    def one(x):
        quadratic, smooth = PolynomialKernel(2), GaussianKernel(1.0)
        g, h = gram(quadratic, x), gram(smooth, x)

        def error(g, kernel, r):
            f = nystrom(kernel, x, jnp.arange(r))
            return jnp.linalg.norm(g - f @ f.T)

        exact = error(g, quadratic, 6) / jnp.linalg.norm(g), error(g, quadratic, 5) / jnp.linalg.norm(g)
        errors = jnp.stack([error(h, smooth, int(r)) for r in ranks])
        return exact, errors, truncation_error(h)[ranks], truncation_error(g)[6] / jnp.linalg.norm(g)

    (six, five), errors, best, rank = measure(x)
    # the six landmarks may lie close to a common quadric: rounding is amplified by their condition number
    yield at_most("error of six landmarks, quadratic kernel", six, 1e-7)
    yield at_most("error of the best matrix of rank 6", rank, 1e-13)
    yield control("landmarks span the six features: here five do not", at_most("error", five, 1e-7))
    yield monotone("error, Gaussian kernel", errors, "decreasing", atol=1e-9 * n, x=ranks, along="landmarks")
    yield at_least("error, Gaussian kernel: never below the best", errors, best, atol=1e-9 * n, x=ranks, along="rank")
    yield control("as many landmarks as the rank: here twice as many", at_least("error", errors[:, 1:], best[:, :-1]))
    points = np.array([64, 128, 256, 512])
    flops = {"gram": [], "features": []}
    for m in points:
        z = jnp.zeros((int(m), 4))
        flops["gram"].append(_flops(lambda z: gram(PolynomialKernel(3), z), z))
        flops["features"].append(_flops(lambda z: jax.vmap(lambda p: monomial_features(p, 3))(z), z))
    yield rate("operations of the Gram form", points, flops["gram"], 2.0, tolerance=0.01, along="points")
    yield rate("operations of the feature form", points, flops["features"], 1.0, tolerance=0.01, along="points")
    count = monomial_count(4, 3)
    sizes = [gram(PolynomialKernel(3), z).size, jax.vmap(lambda p: monomial_features(p, 3))(z).size]
    kept = [gram_cost(512, 8).memory, feature_cost(512, count, 3).memory]
    yield equal("numbers kept by either form, 512 points", np.array(sizes), np.array(kept), rtol=0, atol=0)


def _flops(function, argument) -> float:
    """What the compiler says a function asks for."""
    return float(jax.jit(function).lower(argument).compile().cost_analysis()["flops"])


@claim(rows=("M04.13",), full={"n": 2000})
def mercer_expansion(key, *, n: Size = 400, finite: Size = 40):
    r"""A kernel is a sum of products of features: its eigenfunctions.

    $K$ symmetric, square integrable and positive semidefinite gives $K(x,x')=\sum_i\mu_i\psi_i(x)\psi_i(x')$ with
    $\mu_i\ge0$; on finitely many points this is the spectral theorem for $G$. For $\min(s,t)$ on $[0,1]$
    $\mu_i=((i-\frac12)\pi)^{-2}$, $\psi_i(t)=\sqrt2\sin((i-\frac12)\pi t)$, and the sum up to $r$ misses
    $\frac2{\pi^2r}$ at most to leading order, uniformly. For $-\min$ no such features exist.
    """
    kernel = BrownianKernel()
    nodes = (jnp.arange(n) + 0.5) / n
    weights = jnp.full(n, 1 / n)
    ranks = 2 ** np.arange(2, 8)
    points = jnp.linspace(0, 1, 201)  # with the end, where the sum is worst
    x = jax.random.normal(key, (finite, 3))

    @jax.jit
    def measure(x):
        found = mercer(kernel, nodes, weights, 10)
        minus = mercer(lambda a, b: -kernel(a, b), nodes, weights, n).eigenvalues
        exact = brownian_eigenfunctions(nodes, 10)
        signs = jnp.sign(jnp.sum(found.functions * exact, 0))
        psi = brownian_eigenfunctions(points, int(ranks[-1]))
        mu = brownian_eigenvalues(int(ranks[-1]))
        full = gram(kernel, points)
        gaps = jnp.stack([jnp.abs(full - (psi[:, :r] * mu[:r]) @ psi[:, :r].T).max() for r in ranks])
        g = gram(GaussianKernel(), x)
        ones = jnp.ones(finite)
        all_of_it = mercer(GaussianKernel(), x, ones, finite)
        features = mercer_features(GaussianKernel(), x, ones, all_of_it, x)
        return found.eigenvalues, found.functions * signs, exact, gaps, g, truncated(all_of_it), features, minus

    mu, functions, exact, gaps, g, spectral, features, minus = measure(x)
    # midpoints integrate the kernel, which has a kink, with an error of order i² / n² of the eigenvalue
    allowed = (np.arange(1, 11) / n) ** 2 * np.pi**2
    predicted = np.asarray(brownian_eigenvalues(10))
    yield equal("eigenvalues of min(s, t)", mu / predicted, 1.0, rtol=0, atol=float(allowed.max()))
    yield equal("eigenfunctions", functions, exact, rtol=0, atol=10 * float(allowed.max()))
    yield rate("largest error of the sum up to r", ranks, gaps, -1.0, tolerance=0.1, along="r")
    # the tail is a sum of 2 / ((i - 1/2) π)² beyond r: the midpoint rule for a convex function, below its integral
    yield at_most("largest error of the sum up to r", gaps, 2 / (np.pi**2 * ranks), x=ranks, along="r")
    yield equal("Gram matrix from its eigenvectors", spectral, g, atol=1e-13 * finite)
    # features of eigenvalues below rounding are left out: each of them is at most n eps of the largest
    yield equal("features that reproduce it", features @ features.T, g, atol=1e-12 * finite**2)
    yield control("a positive semidefinite kernel: here -min(s, t)", at_least("eigenvalues", minus, 0.0, atol=1e-12))
