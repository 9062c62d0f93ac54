"""Polynomials through data and near them."""

import altair as alt
import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import (
    Count,
    Positive,
    Size,
    at_least,
    at_most,
    claim,
    control,
    equal,
    estimate,
    monotone,
    picture,
    rate,
)
from corollary.generalization import chebyshev_nodes, interpolating_polynomial, polynomial_fit


def _mean_square(p, m, law):
    """The mean of P² over [-1, 1], exact for degrees below m: for the arcsine law, or the uniform one."""
    if law == "arcsine":
        return jnp.mean(p(chebyshev_nodes(m)) ** 2)
    nodes, weights = np.polynomial.legendre.leggauss(m)
    return weights @ p(jnp.asarray(nodes)) ** 2 / 2


@claim(rows=("M11.05", "B13.17", "T05.03"))
def interpolation(key, *, n: Size = 15, runs: Count = 20):
    r"""One polynomial of degree below n passes through n points, and what it does elsewhere depends on where they lie.

    For different $x_i$ there is exactly one with $P(x_i)=y_i$. The greatest error for $1/(1+25x^2)$ grows with $n$ at
    equispaced points and falls at the zeros of Chebyshev polynomials. There, the mean square over the arcsine law of
    the polynomial through noise $\epsilon$ is $\frac1n\sum_i\epsilon_i^2$, exactly: the price is $\sigma^2$, whatever
    $n$; at equispaced points it is a multiple of the noise that grows like $4^n$, but for powers of $n$. Two values at
    one point cannot be interpolated.
    """
    sizes, odd = (10, 40, 80), (11, 21, 41)
    growing = np.arange(40, 101, 15)

    @jax.jit
    def measure(key):
        x_key, y_key, e_key = jax.random.split(key, 3)
        x, y = jax.random.uniform(x_key, (n,), minval=-1.0), jax.random.normal(y_key, (n,))
        grid = jnp.linspace(x.min(), x.max(), 200)
        p, least = interpolating_polynomial(x, y), polynomial_fit(x, y, n - 1)
        twice = x.at[1].set(x[0])
        same = polynomial_fit(twice, y, n - 1, basis="legendre")

        def runge(nodes):
            f = lambda t: 1 / (1 + 25 * t**2)  # noqa: E731
            at = jnp.linspace(-1, 1, 1001)
            return jnp.max(jnp.abs(interpolating_polynomial(nodes, f(nodes))(at) - f(at)))

        def noisy(nodes, law):
            noise = jax.random.normal(e_key, (runs, len(nodes)))
            price = jax.vmap(lambda e: _mean_square(interpolating_polynomial(nodes, e), len(nodes) + 1, law))(noise)
            return price / jnp.mean(noise**2, 1)

        return {
            "at the nodes": (p(x), least(x), y),
            "between": (p(grid), least(grid)),
            "twice": same(twice) - y,
            "equispaced": jnp.stack([runge(jnp.linspace(-1, 1, m)) for m in odd]),
            "Chebyshev": jnp.stack([runge(chebyshev_nodes(m)) for m in odd]),
            "price": jnp.stack([noisy(chebyshev_nodes(m), "arcsine") for m in sizes]),
            "other price": jnp.stack([noisy(jnp.linspace(-1, 1, m), "arcsine") for m in sizes]),
            # the mean over the noise: the sum of the squares of the polynomials that are 1 at one node
            "growth": jnp.stack(
                [
                    jnp.sum(jax.vmap(lambda e, t=t: _mean_square(interpolating_polynomial(t, e), len(t) + 1, ""))(eye))
                    for t, eye in ((jnp.linspace(-1, 1, int(m)), jnp.eye(int(m))) for m in growing)
                ]
            ),
        }

    m = measure(key)
    exact, least, y = m["at the nodes"]
    yield equal("values at the nodes", exact, y)
    # least squares in a basis that is orthonormal at the points: its recurrence carries the rounding of terms as large
    # as the polynomial is between them
    scale = float(jnp.max(jnp.abs(m["between"][0])))
    yield equal("two constructions, between the nodes", *m["between"], rtol=0, atol=1e-9 * scale)
    yield equal("two constructions, at the nodes", least, y, rtol=0, atol=1e-9 * scale)
    yield control("different points: here one twice", equal("values at the nodes", m["twice"], 0.0, atol=1e-9))
    yield monotone("greatest error at equispaced points", m["equispaced"], strict=True, x=odd, along="n")
    yield monotone("greatest error at Chebyshev points", m["Chebyshev"], "decreasing", strict=True, x=odd, along="n")
    yield equal("price of noise at Chebyshev points", m["price"], 1.0, rtol=1e-9)
    yield control("Chebyshev points: here equispaced", equal("price of noise", m["other price"], 1.0, rtol=1e-9))
    # a power n^(-4), say, takes 4/n from the slope, 0.06 in the middle of the range
    yield rate(
        "price at equispaced points",
        growing,
        m["growth"],
        2 * np.log(2),
        tolerance=0.15,
        axes="semi-log",
        along="n",
    )


@claim(rows=("T05.03",))
def penalty_chooses(key, *, n: Size = 30, degree: Size = 25, sigma: Positive = 0.1, runs: Count = 60):
    r"""With many more coefficients than the truth needs, a penalty on them finds it again.

    $x$ uniform on $[0,1]$, $y=p(x)+\eta$ with $p$ of degree 3 and $\eta\sim\mathcal N(0,\sigma^2)$. The truth has the
    training loss $n\sigma^2$ on average. Least squares of degree 25 has less, of degree 35 (least norm) none; on new
    data degree 25 without a penalty does at least 20 times worse than with the best $\lambda\sum_jc_j^2$, at the
    median, and that penalty lies inside the range that was tried. (Without a penalty the fit is computed in a basis
    that is orthonormal at the points, since powers of $x$ lose all digits. The printed loss lacks the power of $x$.)
    """
    penalties = 10.0 ** np.arange(-14, 3)

    @jax.jit
    def measure(keys):
        def one(key):
            keys = jax.random.split(key, 4)
            coefficients = jax.random.normal(keys[0], (4,))
            truth = lambda t: jnp.polyval(coefficients, 2 * t - 1)  # noqa: E731
            x = jax.random.uniform(keys[1], (n,))
            noise = sigma * jax.random.normal(keys[2], (n,))
            y, new = truth(x) + noise, jax.random.uniform(keys[3], (300,))

            def losses(p):
                return jnp.sum((p(x) - y) ** 2), jnp.mean((p(new) - truth(new)) ** 2)

            def penalised(degree):
                test = lambda c: losses(polynomial_fit(x, y, degree, penalty=c, basis="monomial"))[1]  # noqa: E731
                return jax.vmap(test)(penalties)

            exact = losses(polynomial_fit(x, y, 3))[1], penalised(3)
            return jnp.sum(noise**2), losses(polynomial_fit(x, y, degree)), penalised(degree), exact

        return jax.lax.map(one, keys)

    truth, (train, plain), test, exact = jax.tree.map(np.asarray, measure(jax.random.split(key, runs)))
    yield estimate("training loss of the truth", truth, n * sigma**2, wrong=(n - 26) * sigma**2)
    yield at_most("training loss of degree 25 against that of the truth", train, truth)
    median = np.median(test, 0)
    yield at_least("median test error without a penalty over the least", np.median(plain) / median.min(), 20.0)
    inside = median[1:-1].min()
    yield at_least("median test error at the ends of the range over the least inside", median[[0, -1]] / inside, 1.2)
    plain, test = (np.median(v, 0) for v in exact)
    yield control(
        "more coefficients than the truth needs: here as many",
        at_least("median test error without a penalty over the least", plain / test.min(), 20.0),
    )
    rows = [{"penalty": float(c), "median test error": float(v)} for c, v in zip(penalties, median, strict=True)]
    log = alt.Scale(type="log")
    chart = alt.Chart(alt.Data(values=rows)).mark_line(point=True)
    yield picture(
        "test error against the penalty",
        chart.encode(alt.X("penalty:Q", scale=log), alt.Y("median test error:Q", scale=log)).properties(
            width=300, height=190
        ),
    )


@claim(rows=("M11.02", "M11.03"))
def training_fit(key, *, n: Size = 15, sets: Count = 2500):
    r"""Training errors never rise with the degree; errors on new data are least at the true one.

    Least squares of degree $D$ at $n=15$ points with $x\sim\mathcal N(0,10^2)$ and $y=\frac12x^2-6x+20+\xi$,
    $\xi\sim\mathcal N(0,1)$. The training error does not rise with $D$, because the families are nested; its mean is
    $1-\frac{D+1}n$ for $D\ge2$. The median error on new data is least at $D=2$. (The text's $D$-dimensional polynomials
    are those of degree at most $D$.)
    """
    highest = 8
    degrees = np.arange(highest + 1)

    @jax.jit
    def measure(keys):
        def one(key):
            x_key, e_key, new_key = jax.random.split(key, 3)
            f = lambda x: 0.5 * x**2 - 6 * x + 20  # noqa: E731
            x, new = 10 * jax.random.normal(x_key, (n,)), 10 * jax.random.normal(new_key, (100,))
            y = f(x) + jax.random.normal(e_key, (n,))
            p = polynomial_fit(x, y, highest)
            train = jax.vmap(lambda d: jnp.mean((p.truncated(d)(x) - y) ** 2))(degrees)
            cubic = y + 0.01 * x**3
            other = jnp.mean((polynomial_fit(x, cubic, 2)(x) - cubic) ** 2)
            return train, jax.vmap(lambda d: jnp.mean((p.truncated(d)(new) - f(new)) ** 2))(degrees), other

        return jax.vmap(one)(keys)

    train, test, other = (np.asarray(v) for v in measure(jax.random.split(key, sets)))
    # labels reach some hundreds, and their squares carry 1e-16 of themselves
    yield monotone("training error", train, "decreasing", atol=1e-9, x=degrees, along="degree")
    rich = degrees[2:]
    yield estimate("training error from degree 2 on", train[:, 2:], 1 - (rich + 1) / n, wrong=1 - rich / n)
    median = np.median(test, 0)
    yield at_least("median error on new data, other degrees over degree 2", np.delete(median, 2) / median[2], 1.0)
    yield control(
        "a truth of degree 2: here of degree 3",
        estimate("training error of degree 2", other, 1 - 3 / n, wrong=1 - 2 / n),
    )
