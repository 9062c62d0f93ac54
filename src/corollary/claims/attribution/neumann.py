"""The Neumann series for the inverse of a curvature: where it converges, its exact error, and random batches."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.attribution import (
    neumann_error,
    neumann_inverse,
    neumann_solve,
    neumann_terms,
    stochastic_neumann_solve,
)
from corollary.evidence import Count, Positive, Size, at_least, at_most, claim, control, equal, estimate, printed


def _matrix(key, spectrum):
    axes = jnp.linalg.qr(jax.random.normal(key, (spectrum.size, spectrum.size)))[0]
    return (axes * spectrum) @ axes.T


@claim(rows=("T10.05",))
def converges(key, *, dim: Size = 20, terms: Count = 2000):
    r"""The powers of I - A sum up to the inverse of A, for spectra in (0, 2).

    $A^{-1}=\sum_{i\ge0}(I-A)^i$ for symmetric $A$ with all eigenvalues in $(0,2)$. The text asks for a greatest
    eigenvalue below 1, which is enough; 1.9 is too, 2.1 is not.
    """
    tops = jnp.array([0.95, 1.9, 2.1])

    @jax.jit
    def measure(key):
        def error(top):
            matrix = _matrix(key, jnp.linspace(0.05, top, dim))
            return jnp.abs(neumann_inverse(matrix, terms) @ matrix - jnp.eye(dim)).max()

        return jax.lax.map(error, tops)

    below, between, beyond = measure(key)
    # the series ends at 0.95^2000 = 1e-45; rounding of 2,000 sums and one product with numbers up to 20
    allowed = 2000 * 20 * dim * float(np.finfo(float).eps)
    yield at_most("the sum times A, from the identity: spectrum to 0.95", below, allowed)
    yield at_most("the sum times A, from the identity: spectrum to 1.9", between, allowed)
    yield control("a spectrum below 2: here to 2.1", at_most("the sum times A, from the identity", beyond, allowed))


@claim(rows=("T10.06",), no_control="an exercise; another spectrum is in attribution.neumann.converges")
def truncation_error(key, *, dim: Size = 20, most: Size = 100):
    r"""The first r terms leave an error of exactly (1 - λ)^r / λ, λ the least eigenvalue.

    For symmetric $A$ with spectrum in $(0,1]$ and least eigenvalue $\lambda$, and $S_r=\sum_{i=0}^{r-1}(I-A)^i$:
    $A^{-1}-S_r=A^{-1}(I-A)^r$, so that $\lambda_{\max}(A^{-1}-S_r)=(1-\lambda)^r/\lambda$. The least number of terms
    with an error of at most $\epsilon$ is therefore at most $\frac1\lambda\ln\frac1{\lambda\epsilon}+1$.
    """
    counts = jnp.arange(1, most + 1)
    leasts, epsilon = np.array([0.05, 0.2, 0.5]), 1e-6

    @jax.jit
    def measure(key):
        def errors(least):
            matrix = _matrix(key, jnp.linspace(least, 0.95, dim))
            inverse = jnp.linalg.inv(matrix)

            def add(total, _):
                return jnp.eye(dim) + total - matrix @ total, jnp.linalg.eigvalsh(inverse - total)[-1]

            return jax.lax.scan(add, jnp.eye(dim), counts)[1]

        return jax.lax.map(errors, jnp.asarray(leasts))

    found = np.asarray(measure(key))
    predicted = np.asarray(neumann_error(leasts[:, None], counts))
    # the inverse and the sums are rounded to some 10 units of numbers up to 1 / λ = 20
    rounding = 10 * dim * float(np.finfo(float).eps) / leasts.min()
    for row, exact, least in zip(found, predicted, leasts, strict=True):
        yield equal(f"largest eigenvalue, λ = {least}", row, exact, rtol=1e-10, atol=rounding, x=counts, along="terms")
    needed = np.array([neumann_terms(least, epsilon) for least in leasts])
    yield at_most(
        "terms for an error of 1e-6", needed, np.log(1 / (leasts * epsilon)) / leasts + 1, x=leasts, along="λ"
    )
    yield at_least("error with one term less", neumann_error(leasts, needed - 1), epsilon, x=leasts, along="λ")


@claim(rows=("T10.06",), erratum="The sum from i = 0 to r has r + 1 terms.")
def printed_number_of_terms(key, *, dim: Size = 10, most: Size = 30):
    r"""The first r terms of the series are the powers from 0 to r.

    As printed: $S_r$ "denotes the truncation of the series to its first r terms", and "allows us to approximate it as
    $\sum_{i=0}^r(I-H)^iv$". That sum has $r+1$ terms; its error is $(1-\lambda)^{r+1}/\lambda$ at $v$ of least
    curvature, not the $(1-\lambda)^r/\lambda$ of $S_r$. The number of products is $r$, as printed.
    """
    least = 0.1
    counts = np.arange(1, most + 1)

    @jax.jit
    def measure(key):
        matrix = _matrix(key, jnp.linspace(least, 0.9, dim))
        v = jnp.linalg.eigh(matrix)[1][:, 0]
        solution = jnp.linalg.solve(matrix, v)

        def add(carry, _):
            power, total = carry
            power = power - matrix @ power
            total = total + power
            return (power, total), jnp.linalg.norm(solution - total)

        # the sum to i = r, one power after the other; and the first r terms
        to_r = jax.lax.scan(add, (v, v), length=most)[1]
        first = [jnp.linalg.norm(solution - neumann_solve(lambda u: matrix @ u, v, int(r))) for r in (1, 2, most)]
        return to_r, jnp.stack(first)

    to_r, first = measure(key)
    exact = neumann_error(least, counts)
    # of numbers up to 1 / λ = 10, rounded in 30 sums
    rounding = 30 * 10 * dim * float(np.finfo(float).eps)
    yield printed(equal("error of the sum to i = r: that of r terms", to_r, exact, atol=rounding, x=counts, along="r"))
    after = neumann_error(least, counts + 1)
    yield equal("error of the sum to i = r: that of r + 1 terms", to_r, after, atol=rounding, x=counts, along="r")
    yield equal("error of the first r terms", first, neumann_error(least, np.array([1, 2, most])), atol=rounding)


@claim(rows=("T10.07",))
def curvature_products(key, *, dim: Size = 6, n: Size = 60, runs: Size = 20_000, penalty: Positive = 0.3):
    r"""Products with fresh random batches give the truncated series on average, products with all data its limit.

    $H^{-1}v\approx\frac1s\sum_{i<r}(I-H/s)^iv$ by $u\leftarrow v+(I-H/s)u$, $r-1$ products, with an error of at most
    $\frac1s\frac{(1-\lambda/s)^r}{\lambda/s}\|v\|$ for $\lambda I\preceq H\preceq sI$. If each product takes the
    Hessian of another random batch, independent of the others, the mean is the truncated sum for the mean Hessian;
    with one batch for all products it is not. Measured for the Hessian of a penalised least squares problem and
    batches of one example, the mean along $v$.
    """
    terms, epsilon = 4, 1e-8

    @jax.jit
    def measure(key):
        x_key, v_key, draw_key = jax.random.split(key, 3)
        x, v = jax.random.normal(x_key, (n, dim)), jax.random.normal(v_key, (dim,))
        hessian = x.T @ x / n + penalty * jnp.eye(dim)
        values = jnp.linalg.eigvalsh(hessian)
        scale = jnp.max(jnp.sum(x**2, 1)) + penalty  # no batch has a larger eigenvalue

        def objective(w):
            return 0.5 * jnp.mean((x @ w) ** 2) + penalty / 2 * jnp.sum(w**2)

        def product(u):
            return jax.jvp(jax.grad(objective), (jnp.ones(dim),), (u,))[1]

        def one_example(u, key):
            row = x[jax.random.randint(key, (), 0, n)]
            return row * (row @ u) + penalty * u

        def fresh(key):
            return stochastic_neumann_solve(one_example, v, terms, scale=scale, key=key) @ v

        def same(key):
            return neumann_solve(lambda u: one_example(u, key), v, terms, scale=scale) @ v

        keys = jax.random.split(draw_key, runs)
        every = jax.vmap(lambda r: neumann_solve(lambda u: r * (r @ u) + penalty * u, v, terms, scale=scale) @ v)(x)
        powers = jnp.stack([jnp.linalg.matrix_power(jnp.eye(dim) - hessian / scale, i) for i in range(terms)])
        truncated = v @ powers.sum(0) @ v / scale
        return {
            "ends": (values[0], values[-1]),
            "product": (product(v), hessian @ v),
            "exact": jnp.linalg.solve(hessian, v),
            "size": jnp.linalg.norm(v),
            "scale": scale,
            "hessian": hessian,
            "v": v,
            "fresh": jax.vmap(fresh)(keys),
            "same": jax.vmap(same)(keys),
            "truncated": truncated,
            "one batch": every.mean(),
        }

    found = measure(key)
    least, largest = map(float, found["ends"])
    enough = neumann_terms(least / largest, epsilon * least)
    solved = neumann_solve(lambda u: found["hessian"] @ u, found["v"], enough, scale=largest)
    error = float(jnp.linalg.norm(solved - found["exact"]))
    yield equal("forward over reverse: the matrix times the vector", *found["product"])
    yield at_most(
        "error with the predicted number of terms",
        error,
        float(neumann_error(least / largest, enough)) / largest * float(found["size"]),
        atol=1e-13 * float(found["size"]) / least,
    )
    # a shift: the power i of I - A moves the first coordinate to place i, so the sum shows which powers are in it
    shift = jnp.eye(9, k=-1)
    shown = neumann_solve(lambda u: u - shift @ u, jnp.eye(9)[0], 5)
    yield equal("powers in the sum of five terms", shown, np.arange(9) < 5)
    yield estimate("fresh examples", found["fresh"], found["truncated"], wrong=found["one batch"])
    yield control(
        "independent examples: here one for all products",
        estimate("mean of the sum", found["same"], found["truncated"], wrong=found["one batch"] * 2),
    )
