"""Norms of vectors, sequences, functions and matrices."""

import altair as alt
import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, monotone, picture, printed, rate
from corollary.foundations import (
    function_norm,
    norm_axioms,
    operator_norm,
    power_iteration,
    sequence_norms,
    vector_norm,
)

EPS = 2.3e-16


@claim(rows=("B01.04", "M00.01"))
def axioms(key, *, dim: Size = 8, samples: Size = 1000):
    r"""The p-norms are norms exactly for p at least 1.

    For $p\ge1$ (and $p=\infty$) $\|v\|_p=(\sum_i|v_i|^p)^{1/p}$ is non-negative, zero only for $v=0$, satisfies
    $\|av\|_p=|a|\|v\|_p$ and $\|u+v\|_p\le\|u\|_p+\|v\|_p$. For $p=\frac12$ the triangle inequality fails:
    $\|e_1+e_2\|_{1/2}=4>2$. The square $\|v\|_2^2$ is not homogeneous, and $|v_1|$ vanishes at $e_2\neq0$.
    """
    u_key, v_key, a_key = jax.random.split(key, 3)
    u, v = jax.random.normal(u_key, (samples, dim)), jax.random.normal(v_key, (samples, dim))
    scalars = 3 * jax.random.normal(a_key, (samples,))
    exponents = jnp.array([1.0, 1.5, 2.0, 3.0, jnp.inf])

    @jax.jit
    def measure(u, v, scalars):
        norms = jax.vmap(lambda p: jnp.stack(norm_axioms(lambda x: vector_norm(x, p), u, v, scalars)))(exponents)
        others = [lambda x: vector_norm(x, 0.5), lambda x: vector_norm(x) ** 2, lambda x: jnp.abs(x[0])]
        return norms.T, jnp.stack([jnp.stack(norm_axioms(f, u, v, scalars)) for f in others])

    (negativity, zero, least, homogeneity, triangle), (half, square, first) = measure(u, v, scalars)
    # a sum of dim powers and a root, with some ten roundings more
    rounding = (dim + 10) * EPS
    yield at_most("negative part", negativity, 0.0)
    yield equal("value at zero", zero, 0.0, atol=0)
    yield at_least("value of a nonzero vector over its greatest entry", least, 1.0, atol=rounding)
    yield at_most("relative error of homogeneity", homogeneity, rounding)
    yield at_most("excess over the triangle inequality", triangle, rounding)
    yield equal("p = 1/2 at two unit vectors", vector_norm(jnp.array([1.0, 1.0]), 0.5), 4.0)
    yield control("p is 1/2, below 1", at_most("excess over the triangle inequality", half[4], rounding))
    yield control("the square of a norm", at_most("relative error of homogeneity", square[3], rounding))
    yield control("|v1| is only a seminorm", at_least("least value over greatest entry", first[2], 1.0, atol=rounding))
    yield _unit_balls()


def _unit_balls():
    phi = np.linspace(0, 2 * np.pi, 241)
    circle = jnp.stack([jnp.cos(phi), jnp.sin(phi)], 1)
    rows = []
    for label, p in (("1/2", 0.5), ("1", 1.0), ("2", 2.0), ("4", 4.0), ("∞", np.inf)):
        edge = np.asarray(circle / vector_norm(circle, p)[:, None])
        rows += [{"x": float(x), "y": float(y), "k": k, "p": label} for k, (x, y) in enumerate(edge)]
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_line(strokeWidth=1.8)
        .encode(
            alt.X("x:Q", title=None),
            alt.Y("y:Q", title=None),
            alt.Color("p:N", sort=["1/2", "1", "2", "4", "∞"], legend=alt.Legend(title="p")),
            alt.Order("k:Q"),
        )
        .properties(width=220, height=220)
    )
    return picture("unit balls in the plane: convex from p = 1 on", chart)


@claim(rows=("M00.01",))
def order_of_norms(key, *, dim: Size = 20, samples: Size = 200):
    r"""The p-norm of a vector falls as p grows, down to the greatest entry; for functions the region decides.

    $\|x\|_q$ is non-increasing in $q>0$ and $0\le\|x\|_q-\|x\|_\infty\le\|x\|_\infty(D^{1/q}-1)$, with equality when
    all $|x_i|$ are equal. A norm by the mean instead of the sum grows with $q$. For functions
    $\|f\|_q=(\int|f|^q)^{1/q}$: the bell $e^{-x^2/2}$ on the line has $\|f\|_q=(2\pi/q)^{1/2q}$, which falls at first
    and then rises.
    """
    x = jax.random.normal(key, (samples, dim))
    exponents = jnp.array([0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0, 1000.0])

    @jax.jit
    def measure(x):
        norms = jax.vmap(lambda q: vector_norm(x, q), out_axes=1)(exponents)
        flat = jax.vmap(lambda q: vector_norm(jnp.ones(dim), q))(exponents)
        bells = jax.vmap(lambda q: function_norm(lambda t: jnp.exp(-(t**2) / 2), q, -20.0, 20.0, panels=1000))(
            exponents
        )
        return norms, vector_norm(x, jnp.inf), flat, bells

    norms, greatest, flat, bells = measure(x)
    room = dim ** (1 / exponents) - 1
    gap, rounding = norms - greatest[:, None], 1e-13 * float(norms.max())
    along = {"x": np.log10(exponents), "along": "log10 of q"}
    yield monotone("norms of random vectors", norms, "decreasing", atol=rounding, **along)
    yield at_most("distance to the greatest entry", gap, greatest[:, None] * room, atol=rounding, **along)
    yield equal("equal entries attain the bound", flat - 1, room, **along)
    # the narrowest power of the bell is 0.03 wide; eight nodes on each 0.04 resolve it far below 1e-8
    yield equal("norms of a bell", bells, (2 * np.pi / exponents) ** (1 / (2 * exponents)), rtol=1e-8)
    means = norms / dim ** (1 / exponents)
    yield monotone("means in place of sums: the other way round", means, atol=rounding, **along)
    yield control(
        "a function on the line, not a vector",
        monotone("norms of a bell", bells, "decreasing", atol=rounding, **along),
    )


@claim(
    rows=("M00.01",),
    erratum="The absolute values are missing in the sum of powers: for odd or broken q it is no norm.",
)
def norm_without_absolute_values(key):
    r"""The root of the sum of the q-th powers of the entries is a norm.

    As printed among the norms: $\|x\|_q=\big(\sum_ix_i^q\big)^{1/q}$ for $q>0$. At $q=1$ and $x=(-1,-1)$ that is $-2$,
    and at $x=(1,-1)$ it is $0$. With $|x_i|^q$ it is right.
    """
    u, v = jnp.array([[1.0, -1.0], [-1.0, -1.0]]), jnp.array([[-1.0, -1.0], [1.0, -1.0]])
    signed = norm_axioms(jnp.sum, u, v, jnp.ones(2))  # q = 1
    right = norm_axioms(lambda x: jnp.sum(jnp.abs(x)), u, v, jnp.ones(2))
    name = "value of a nonzero vector over its greatest entry"
    yield at_most("negative part, with absolute values", right.negativity, 0.0)
    yield at_least(f"{name}, with absolute values", right.least, 1.0)
    yield printed(at_most("negative part", signed.negativity, 0.0))
    yield printed(at_least(name, signed.least, 1.0))


@claim(rows=("B01.03",))
def summable_sequences(key, *, length: Size = 100_000):
    r"""The sequence 1/n is square-summable but not summable.

    $\sum1/n^2=\pi^2/6$, so $(1/n)\in\ell^2$: $\frac1{N+1}\le\frac{\pi^2}6-\sum_{n\le N}\frac1{n^2}\le\frac1N$. The sums
    $\sum_{n\le N}\frac1n$ grow like $\ln N$, so that $e$ to the power of them grows like $N$: $(1/n)\notin\ell^1$.
    """
    n = jnp.arange(1, length + 1)
    one, two = jax.jit(lambda a: (sequence_norms(a, 1.0), sequence_norms(a, 2.0)))(1 / n)
    missing = np.pi**2 / 6 - two**2
    some = np.unique(np.geomspace(10, length, 60).astype(int)) - 1
    # a sum of N terms below 2 is off by at most N roundings of 2 (pairwise sums do far better)
    rounding = 2 * EPS * length
    yield at_most("what is missing of π²/6", missing[some], 1 / n[some], atol=rounding, x=n[some], along="N")
    yield at_least("what is missing of π²/6, from below", missing[some], 1 / (n[some] + 1), atol=rounding)
    # the sum is ln N + 0.577 + 1/2N: from N = 10 on the last term bends the slope by less than one percent
    yield rate("exponential of the sum of 1/n", n[some], jnp.exp(one[some]), 1.0, tolerance=0.01, along="N")
    yield equal("greatest entry", sequence_norms(1 / n[:10], jnp.inf), 1.0)
    yield control(
        "the sequence is 1/n², not 1/n",
        rate("exponential of the sum of 1/n²", n[some], jnp.exp(two[some] ** 2), 1.0, tolerance=0.01, along="N"),
    )


@claim(rows=("B01.05", "B01.32"))
def operator_norms(key, *, rows: Size = 12, columns: Size = 8, samples: Size = 2000):
    r"""The operator norm is a norm, bounds every stretch, is attained, and is the largest singular value for p = 2.

    $\|A\|_p=\sup_{x\ne0}\|Ax\|_p/\|x\|_p$ satisfies the axioms of a norm on $\mathbb R^{m\times n}$ and
    $\|AB\|\le\|A\|\|B\|$. $\|A\|_2=\sigma_1(A)=\sqrt{\lambda_1(A^\top A)}$, attained at the top right singular vector;
    $\|A\|_1$ is the largest column sum of $|A|$, attained at a unit vector, and $\|A\|_\infty$ the largest row sum,
    attained at the signs of that row.
    """
    a_key, b_key, x_key, s_key = jax.random.split(key, 4)
    a, b = jax.random.normal(a_key, (2, samples // 10, rows, columns))
    square = jax.random.normal(b_key, (samples // 10, columns, columns))
    x = jax.random.normal(x_key, (samples, columns))
    scalars = jax.random.normal(s_key, (samples // 10,))
    ps = (1, 2, np.inf)

    @jax.jit
    def measure(a, b, square, x, scalars):
        one = a[0]
        _, basis = jnp.linalg.eigh(one.T @ one)
        best = {
            1: jnp.eye(columns)[jnp.argmax(jnp.abs(one).sum(0))],
            2: basis[:, -1],
            np.inf: jnp.sign(one[jnp.argmax(jnp.abs(one).sum(1))]),
        }

        def stretch(x, p):
            return vector_norm(one @ x, p) / vector_norm(x, p)

        return {
            "norm": jnp.stack([operator_norm(one, p) for p in ps]),
            "random": jnp.stack([jax.vmap(lambda x, p=p: stretch(x, p))(x) for p in ps]),
            "best": jnp.stack([stretch(best[p], p) for p in ps]),
            "axioms": jnp.stack(
                [jnp.stack(norm_axioms(lambda m, p=p: operator_norm(m, p), a, b, scalars)) for p in ps]
            ),
            "roots": jax.vmap(lambda m: jnp.sqrt(jnp.linalg.eigvalsh(m.T @ m)[-1]))(a),
            "sigma": jax.vmap(operator_norm)(a),
            "product": jax.vmap(lambda m, s: operator_norm(m @ s))(a, square),
            "factors": jax.vmap(lambda m, s: operator_norm(m) * operator_norm(s))(a, square),
        }

    m = measure(a, b, square, x, scalars)
    rounding = 10 * (rows + columns) * EPS
    yield at_most("stretch of random vectors, p = 1, 2, ∞", m["random"], m["norm"][:, None], rtol=rounding)
    yield equal("stretch of the best vector, p = 1, 2, ∞", m["best"], m["norm"], rtol=rounding)
    yield at_most("homogeneity and triangle inequality", m["axioms"][:, 3:], rounding)
    yield at_least("value of a nonzero matrix over its greatest entry", m["axioms"][:, 2], 1.0, rtol=rounding)
    # the square root of an eigenvalue of A'A halves its relative rounding
    yield equal("root of the largest eigenvalue of A'A", m["roots"], m["sigma"], rtol=1e-12)
    yield at_most("norm of a product over the product of norms", m["product"] / m["factors"], 1.0)
    yield control(
        "the vector is random, not the top singular one",
        equal("stretch, p = 2", m["random"][1], m["norm"][1], rtol=rounding),
    )
    ones = jnp.ones((2, 2))
    yield control(
        "the greatest entry is a norm of matrices, but not of operators",
        at_most("greatest entry of a product", jnp.abs(ones @ ones).max(), jnp.abs(ones).max() ** 2),
    )


@claim(rows=("B01.05",))
def power_method(key, *, rows: Size = 30, columns: Size = 20, steps: Count = 40):
    r"""Power iteration finds the largest singular value at a rate set by the gap to the second.

    If $\sigma_2<\sigma_1$ and the start is not orthogonal to $v_1$, the tangent of the angle between the iterate of
    $v\leftarrow A^\top Av/\|A^\top Av\|$ and $v_1$ falls like $(\sigma_2/\sigma_1)^{2t}$, and $\sigma_1-\|Av\|\ge0$
    like its square $(\sigma_2/\sigma_1)^{4t}$.
    """
    u_key, v_key, c_key = jax.random.split(key, 3)
    u, v = jax.random.orthogonal(u_key, rows)[:, :columns], jax.random.orthogonal(v_key, columns)
    # the third and later values are small, so that the slope is clean from the first steps on
    s = jnp.concatenate([jnp.array([1.0, 0.8]), 0.3 * jnp.linspace(1, 0, columns - 2)])
    a = (u * s) @ v.T
    weights = jax.random.uniform(c_key, (columns,), minval=0.5, maxval=1.5)

    @jax.jit
    def run(a, v, start):
        sigma = power_iteration(a, start, steps).sigma

        def advance(x, _):
            x = power_iteration(a, x, 1).right
            along = jnp.abs(v[:, 0] @ x)
            return x, jnp.linalg.norm(x - v[:, 0] * (v[:, 0] @ x)) / along

        return sigma, jax.lax.scan(advance, start, length=steps)[1]

    sigma, tangents = run(a, v, v @ weights)
    t = jnp.arange(steps)
    early, late = slice(3, 25), slice(3, steps)  # the error of the value reaches rounding after some 35 steps
    slope = float(np.log(0.8))
    yield rate("angle to the singular vector", t[late], tangents[late], 2 * slope, tolerance=0.02, axes="semi-log")
    yield rate("error of the value", t[early], (1 - sigma)[early], 4 * slope, tolerance=0.04, axes="semi-log")
    yield at_most("the estimate from below", sigma, 1.0, rtol=1e-13)
    blind, _ = run(a, v, v @ weights.at[0].set(0.0))
    yield control("a start orthogonal to the singular vector", equal("last estimate", blind[-1], 1.0, rtol=1e-3))
