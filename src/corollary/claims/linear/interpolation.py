"""More weights than data: exact fits, the shortest of them, and that gradient descent finds it (T chapter 3)."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Count, Range, Size, at_least, at_most, claim, control, equal, printed, rate
from corollary.linear import (
    descent_from_zero,
    interpolants,
    min_norm_interpolant,
    moore_penrose,
    sparse_interpolant,
    sum_of_squares,
    sum_of_squares_gradient,
)
from corollary.optimization import gradient_descent

EPS = 2.3e-16


@claim(rows=("T03.02", "T03.06"))
def many_interpolants(key, *, n: Size = 12, spare: Size = 18, samples: Count = 200):
    r"""With more weights than data there are infinitely many exact fits, and one of them is the shortest.

    If $X\in\mathbb R^{n\times d}$ has independent rows and $d>n$, the $w$ with $Xw=y$ are an affine space of dimension
    $d-n$, orthogonal to $w^*=X^\top(XX^\top)^{-1}y$. So $\|w\|^2=\|w^*\|^2+\|w-w^*\|^2$ for each of them: $w^*$ is the
    shortest, and it is the only one in the range of $X^\top$. For generic $X$ there is a solution on every set of $n$
    coordinates. $d=n+$ `spare`.
    """
    dim = n + spare

    @jax.jit
    def measure(key):
        x_key, y_key, c_key, j_key = jax.random.split(key, 4)
        x, y = jax.random.normal(x_key, (n, dim)), jax.random.normal(y_key, (n,))
        _, null = interpolants(x, y)
        shortest = x.T @ jnp.linalg.solve(x @ x.T, y)
        w = shortest + jax.random.normal(c_key, (samples, dim - n)) @ null.T
        support = jax.random.permutation(j_key, dim)[:n]
        sparse = sparse_interpolant(x, y, support)
        rank = jnp.linalg.matrix_rank(jnp.concatenate([x.T, null], 1))
        outside = shortest - x.T @ jnp.linalg.lstsq(x.T, shortest)[0]
        # with one row twice and two labels for it
        twice = jnp.concatenate([x, x[:1]]), jnp.append(y, y[0] + 1)
        return {
            "loss": jax.vmap(lambda w: sum_of_squares(w, x, y))(w),
            "null": x @ null,
            "rank": rank,
            "squares": (jnp.sum(w**2, 1), jnp.sum(shortest**2) + jnp.sum((w - shortest) ** 2, 1)),
            "norms": (jnp.sum(w**2, 1), jnp.sum(min_norm_interpolant(x, y) ** 2)),
            "same": (min_norm_interpolant(x, y), shortest),
            "outside": outside,
            "sparse": (sum_of_squares(sparse, x, y), jnp.sum(sparse != 0), jnp.linalg.norm(sparse)),
            "twice": sum_of_squares(min_norm_interpolant(*twice), *twice),
        }

    m = measure(key)
    # condition numbers of some tens, squared by the normal equations
    yield equal("loss at random points of the space", m["loss"], 0.0, atol=1e-20)
    yield equal("X times the basis of the space", m["null"], 0.0, atol=100 * dim * EPS)
    yield equal("the basis and the rows together span everything", m["rank"], dim, rtol=0, atol=0)
    yield equal("the shortest, by two formulas", *m["same"], atol=1e-10)
    yield equal("the shortest lies in the range of X'", m["outside"], 0.0, atol=1e-11)
    yield equal("squared norms add up", *m["squares"], rtol=1e-9)
    yield at_least("squared norm of the others", *m["norms"])
    # the columns of a random square matrix may be as dependent as 1 / n² or so
    yield equal("loss of a solution on n coordinates", m["sparse"][0], 0.0, atol=1e-16)
    yield equal("its number of coordinates", m["sparse"][1], n, rtol=0, atol=0)
    yield control("the rows are dependent", equal("loss of the best weights", m["twice"], 0.0, atol=1e-16))


@claim(
    rows=("T03.02",),
    erratum="Not every subset of d - n coordinates may be set to zero: the other columns must be independent.",
)
def arbitrary_support(key, *, n: Annotated[int, Range(2, 50)] = 6, spare: Size = 6):
    r"""An arbitrary subset of d - n coordinates can be set to zero and the rest fitted exactly.

    As printed in a footnote, for independent rows. Here the rows are independent and two columns are equal: no solution
    lives on $n$ coordinates that include both. On $n$ coordinates with independent columns there is one.
    """
    dim = n + spare

    @jax.jit
    def measure(key):
        x_key, y_key = jax.random.split(key)
        x, y = jax.random.normal(x_key, (n, dim)), jax.random.normal(y_key, (n,))
        x = x.at[:, 1].set(x[:, 0])

        def least(columns):
            best = jnp.linalg.lstsq(columns, y)[0]
            return 0.5 * jnp.sum((columns @ best - y) ** 2)

        return jnp.linalg.svd(x, compute_uv=False)[-1], least(x[:, :n]), least(x[:, 1 : n + 1])

    smallest, equal_pair, independent = measure(key)
    yield at_least("smallest singular value: the rows are independent", smallest, 1e-6)
    # the columns of a random square matrix may be as dependent as 1 / n² or so
    yield equal("least loss on n coordinates with independent columns", independent, 0.0, atol=1e-16)
    yield printed(equal("least loss on n coordinates with two equal columns", equal_pair, 0.0, atol=1e-16))


@claim(rows=("T03.03", "T03.04", "T03.06"))
def descent_finds_the_shortest(key, *, n: Size = 10, spare: Size = 15, fraction: Annotated[int, Range(30, 180)] = 90):
    r"""Gradient descent from zero is a filter on singular values, and ends at the shortest exact fit.

    On $\frac12\|Xw-y\|^2$ from $w_0=0$, $w_t=\sum_{j<t}(I-\eta X^\top X)^j\eta X^\top y
    =\sum_i\frac{1-(1-\eta\sigma_i^2)^t}{\sigma_i}(u_i\cdot y)v_i$. For $\eta<2/\lambda_{\max}(X^\top X)$ (the text asks
    for half of it) $w_t\to(X^\top X)^+X^\top y=X^\top(XX^\top)^{-1}y$, and the slowest part of the residual shrinks by
    $\max_i|1-\eta\sigma_i^2|$ a step. From another start the part of it in the kernel of $X$ stays. `fraction` is
    $\eta\lambda_{\max}$ in percent.
    """
    share, dim = fraction / 100, n + spare

    @jax.jit
    def measure(key):
        u_key, v_key, y_key, w_key = jax.random.split(key, 4)
        # singular values from 1 to 1/2, so that a few hundred steps are the limit
        u = jnp.linalg.qr(jax.random.normal(u_key, (n, n)))[0]
        v = jnp.linalg.qr(jax.random.normal(v_key, (dim, n)))[0]
        s = jnp.linspace(1.0, 0.5, n)
        x, y, start = (u * s) @ v.T, jax.random.normal(y_key, (n,)), jax.random.normal(w_key, (dim,))

        def run(start, step, y):
            return gradient_descent(lambda w: sum_of_squares_gradient(w, x, y), start, step, 400)

        zero = jnp.zeros(dim)
        # the last one with y along the slowest direction, so that all of the residual is that part
        path, elsewhere, long, nearly, slow = jax.vmap(run)(
            jnp.stack([zero, start, zero, zero, zero]),
            jnp.array([share, share, 2.1, 1.9, share]),
            jnp.stack([y, y, y, y, u[:, -1]]),
        )
        limits = jnp.stack(
            [
                x.T @ jnp.linalg.solve(x @ x.T, y),
                jnp.linalg.pinv(x.T @ x, hermitian=True, rtol=1e-10) @ (x.T @ y),
                jnp.linalg.lstsq(x, y)[0],
            ]
        )
        return {
            "path": (path[:50], descent_from_zero(x, y, share, jnp.arange(50))),
            "limit": (jnp.broadcast_to(path[-1], limits.shape), limits),
            "slow": jnp.linalg.norm(slow[:41] @ x.T - u[:, -1], axis=1),
            "elsewhere": (elsewhere[-1], limits[0] + start - v @ (v.T @ start), limits[0]),
            "long": long[-1],
            "nearly": nearly[-1],
            "filter": (
                jnp.abs((path[:, :] @ v)[:50] / ((u.T @ y) / s)),
                1 - (1 - share * s**2) ** jnp.arange(50)[:, None],
            ),
        }

    m = measure(key)
    yield equal("closed form and iteration", *m["path"], atol=1e-13)
    yield equal("share learned along each singular vector", *m["filter"], atol=1e-10)
    # (1 - share / 4)^400 is below 1e-14 for a share of 30 % and more
    left = max((1 - share / 4) ** 400, abs(1 - share) ** 400)
    yield equal("limit: three formulas", *m["limit"], atol=10 * left + 1e-11)
    steps = np.arange(41)
    rho = np.log(1 - share * 0.25)
    yield rate("residual along the slowest", steps, m["slow"], rho, tolerance=0.001, axes="semi-log", along="step")
    yield equal("limit for a step of 1.9/λ", m["nearly"], m["limit"][1][0], atol=1e-11)
    yield equal("limit from another start", m["elsewhere"][0], m["elsewhere"][1], atol=10 * left + 1e-11)
    yield control(
        "the start is not zero", equal("limit is the shortest", m["elsewhere"][0], m["elsewhere"][2], atol=1e-6)
    )
    yield control("the step is 2.1/λ", equal("limit", m["long"], m["limit"][1][0], atol=1e-6))


@claim(rows=("T03.05",))
def neumann_series(key, *, n: Size = 5, spare: Size = 4):
    r"""The series of powers sums to the pseudo-inverse of I - A where it acts on the range of I - A, and only there.

    For symmetric $A$ with eigenvalues in $(-1,1]$ and $\mathrm{range}(B)\subseteq\mathrm{range}(I-A)$,
    $\sum_{i\ge0}A^iB=(I-A)^+B$. A footnote asks for eigenvalues below 1, where the pseudo-inverse is the inverse; the
    use made of it, $A=I-\eta X^\top X$ with $d>n$, has the eigenvalue 1, and $\sum_iA^i$ itself diverges like $t$.
    """
    dim = n + spare

    @jax.jit
    def measure(key):
        u_key, v_key, b_key = jax.random.split(key, 3)
        v = jnp.linalg.qr(jax.random.normal(v_key, (dim, n)))[0]
        u = jnp.linalg.qr(jax.random.normal(u_key, (n, n)))[0]
        x = (u * jnp.linspace(1.2, 0.5, n)) @ v.T
        a = jnp.eye(dim) - x.T @ x
        b = x.T @ jax.random.normal(b_key, (n, 2))

        def add(carry, _):
            power, total = carry
            return (a @ power, total + power), total

        _, sums = jax.lax.scan(add, (jnp.eye(dim), jnp.zeros((dim, dim))), None, length=301)
        # eigenvalues below 1: the same series is the plain inverse
        (_, plain), _ = jax.lax.scan(
            lambda c, _: ((0.9 * a @ c[0], c[1] + c[0]), None), (jnp.eye(dim), 0 * a), None, length=301
        )
        inverse = jnp.linalg.pinv(jnp.eye(dim) - a, hermitian=True, rtol=1e-10)
        return sums @ b, inverse @ b, jnp.linalg.norm(sums, axis=(1, 2)), sums[-1], inverse, plain, 0.9 * a

    on_range, limit, norms, total, inverse, contracting, small = measure(key)
    # 0.75^300 is below 1e-37; what is left is rounding
    yield equal("series on the range", on_range[-1], limit, atol=1e-11)
    yield equal("eigenvalues below 1: the inverse", contracting, jnp.linalg.inv(jnp.eye(dim) - small), atol=1e-9)
    t = np.arange(100, 301, 20)
    yield rate("norm of the partial sums alone", t, norms[t], 1.0, tolerance=0.02, along="terms")
    yield control("the series acts on everything, not on the range alone", equal("series", total, inverse, atol=1e-3))


@claim(rows=("T03.07", "T03.08", "T03.09"), full={"draws": 200})
def penrose_identities(key, *, draws: Count = 8):
    r"""The pseudo-inverse is the one matrix with four identities.

    $M^+=\sum_{i\le k}\frac1{\sigma_i}v_iu_i^\top$ has $MM^+M=M$, $M^+MM^+=M^+$, and $MM^+$, $M^+M$ symmetric, at every
    rank; it is $\lim_{\lambda\to0}(M^\top M+\lambda I)^{-1}M^\top$, and $M^+=(M^\top M)^+M^\top=M^\top(MM^\top)^+$.
    Eigenvalues of $M^j$ are $j$-th powers of those of a symmetric $M$.
    """
    rows, columns, ranks = 12, 20, jnp.array([2, 7, 12])

    @jax.jit
    def measure(key):
        def one(case):
            key, rank = case
            left, right, extra = jax.random.split(key, 3)
            u = jnp.linalg.qr(jax.random.normal(left, (rows, rows)))[0]
            v = jnp.linalg.qr(jax.random.normal(right, (columns, rows)))[0]
            # singular values between 1 and 2, or zero: what is measured is the identity and not the conditioning
            kept = jnp.arange(rows) < rank
            m = (u * jnp.where(kept, jnp.linspace(2.0, 1.0, rows), 0)) @ v.T
            p = moore_penrose(m)
            square = m.T @ m
            # another matrix with the first identity: p plus anything that m cannot see
            hidden = jnp.eye(columns) - (v * kept) @ v.T
            other = p + hidden @ jax.random.normal(extra, (columns, rows))
            return {
                "first": m @ p @ m - m,
                "second": p @ m @ p - p,
                "symmetric": jnp.concatenate([(m @ p - (m @ p).T).ravel(), (p @ m - (p @ m).T).ravel()]),
                "limit": p - jnp.linalg.solve(square + 1e-7 * jnp.eye(columns), m.T),
                "left": moore_penrose(square, 1e-10) @ m.T - p,
                "right": m.T @ moore_penrose(m @ m.T, 1e-10) - p,
                "powers": jnp.linalg.eigvalsh(square @ square @ square) - jnp.linalg.eigvalsh(square) ** 3,
                "others": m @ other @ m - m,
                "other second": other @ m @ other - other,
            }

        keys = jax.random.split(key, draws * len(ranks))
        return jax.lax.map(one, (keys, jnp.repeat(ranks, draws)))

    found = measure(key)

    def worst(name):
        return jnp.abs(found[name].reshape(draws * len(ranks), -1)).max(1)

    rounding = 1e-12  # sums of at most fifty products of numbers of size 1, a few times over
    yield equal("M M+ M = M", worst("first"), 0.0, atol=rounding)
    yield equal("M+ M M+ = M+", worst("second"), 0.0, atol=rounding)
    yield equal("M M+ and M+ M are symmetric", worst("symmetric"), 0.0, atol=rounding)
    # the ridge moves 1/σ by 1e-7/σ³, and the solve loses 1e7 of the 16 digits
    yield equal("limit of ridge regression", worst("limit"), 0.0, atol=2e-7)
    yield equal("(M'M)+ M'", worst("left"), 0.0, atol=rounding)
    yield equal("M' (MM')+", worst("right"), 0.0, atol=rounding)
    yield equal("eigenvalues of the third power", worst("powers"), 0.0, atol=100 * rounding)
    yield equal("another inverse has the first identity", worst("others"), 0.0, atol=100 * rounding)
    second = worst("other second")[: 2 * draws]
    yield control("an inverse that is not the pseudo-inverse", equal("the second identity", second, 0.0, atol=1e-6))


@claim(
    rows=("T03.07",),
    erratum="For a negative eigenvalue the singular vectors differ in sign; v = u needs a semidefinite matrix.",
)
def symmetric_singular_vectors(key, *, dim: Size = 6):
    r"""A symmetric matrix has the same left and right singular vectors.

    As printed. It is so for the positive eigenvalues; for a negative one $v_i=-u_i$, as $\sigma_i$ is its modulus.
    """

    @jax.jit
    def measure(key):
        turn = jnp.linalg.qr(jax.random.normal(key, (dim, dim)))[0]

        def dots(eigenvalues):
            u, _, vt = jnp.linalg.svd((turn * eigenvalues) @ turn.T)
            return jnp.sum(u * vt.T, axis=0)

        size = jnp.linspace(2.0, 1.0, dim)
        return dots(size), dots(size * (-1.0) ** jnp.arange(dim))

    semidefinite, indefinite = measure(key)
    yield equal("u·v of a semidefinite matrix", semidefinite, 1.0, atol=1e-12)
    yield at_most("|u·v| of an indefinite one, off 1", jnp.abs(jnp.abs(indefinite) - 1), 1e-12)
    yield printed(equal("u·v of an indefinite one", indefinite, 1.0, atol=1e-12))
