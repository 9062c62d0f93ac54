"""Linear regression as the simplest network: its estimator, and what its training error says about its risk."""

import jax
import jax.numpy as jnp

from corollary.evidence import Count, Size, at_least, claim, control, equal, estimate, printed
from corollary.linear import LinearRegression
from corollary.nets import empirical_risk, train_validation_split


def _problem(key, dim, points):
    x_key, w_key, e_key = jax.random.split(key, 3)
    x = jax.random.normal(x_key, (dim, points))
    return x, x.T @ jax.random.normal(w_key, (dim,)) + jax.random.normal(e_key, (points,))


@claim(rows=("E02.02", "E02.01"))
def ordinary_least_squares(key, *, dim: Size = 4, points: Size = 30):
    r"""The least-squares estimator: one minimiser if the data have full rank.

    Let $X\in\mathbb R^{d\times s}$ have its samples as columns and rank $d$. For
    $\ell(w)=\frac12\sum_i(w^\top x_i-y_i)^2=\frac12\|X^\top w-y\|^2$: $\nabla\ell=XX^\top w-Xy$, the minimiser is
    $w^\star=(XX^\top)^{-1}Xy$, and $\ell(w^\star+\delta)-\ell(w^\star)=\frac12\|X^\top\delta\|^2$. Without the
    rank there are several; the pseudo-inverse gives the shortest.
    """
    data_key, w_key = jax.random.split(key)
    x, y = _problem(data_key, dim, points)
    w, delta = jax.random.normal(w_key, (2, dim))
    deficient = x.at[-1].set(x[0])  # a repeated feature

    @jax.jit
    def measure(x, deficient, y):
        def loss(w):
            return 0.5 * jnp.sum(jax.vmap(lambda a, b: w @ a - b, (1, 0))(x, y) ** 2)

        best = jnp.linalg.solve(x @ x.T, x @ y)
        shortest = jnp.linalg.pinv(deficient @ deficient.T) @ deficient @ y
        kernel = jnp.zeros(dim).at[0].set(1.0).at[-1].set(-1.0)
        return {
            "sum": loss(w),
            "norm": 0.5 * jnp.linalg.norm(x.T @ w - y) ** 2,
            "autodiff": jax.grad(loss)(w),
            "gradient": x @ x.T @ w - x @ y,
            "at best": jax.grad(loss)(best),
            "best": best,
            "lstsq": jnp.linalg.lstsq(x.T, y)[0],
            "rise": loss(best + delta) - loss(best),
            "predicted rise": 0.5 * jnp.linalg.norm(x.T @ delta) ** 2,
            "curvature": jnp.linalg.eigvalsh(jax.hessian(loss)(w)),
            "shortest": shortest,
            "longer": shortest + kernel,
            "flat": deficient @ (deficient.T @ (shortest + kernel) - y),
        }

    m = measure(x, deficient, y)
    yield equal("sum and norm", m["sum"], m["norm"])
    yield equal("gradient", m["autodiff"], m["gradient"], atol=1e-11)
    yield equal("gradient at the minimiser", m["at best"], 0.0, atol=1e-10)
    yield equal("against a least-squares solver", m["best"], m["lstsq"])
    yield equal("rise of the loss away from it", m["rise"], m["predicted rise"], rtol=1e-8)
    yield at_least("eigenvalues of the Hessian", m["curvature"], 0.0)
    yield equal("repeated feature: another point with zero gradient", m["flat"], 0.0, atol=1e-10)
    yield at_least("the pseudo-inverse is shorter", jnp.linalg.norm(m["longer"]), jnp.linalg.norm(m["shortest"]))
    yield control("without full rank the minimiser is not unique", equal("two minimisers", m["longer"], m["shortest"]))
    model = LinearRegression.of(m["best"][None], jnp.zeros(1))
    yield equal("prediction of the model", jax.vmap(model)(x.T)[:, 0], m["best"] @ x)


@claim(
    rows=("E02.02",),
    erratum="Gradient and estimator are those for samples in rows; the loss above them has the samples in columns.",
)
def estimator_with_samples_in_columns(key, *, points: Size = 5):
    r"""The least-squares estimator as printed for samples in columns.

    As printed: with $X\in\mathbb R^{d\times s}$ and the loss $\frac12\|X^\top w-y\|^2$, the gradient is
    $X^\top Xw-X^\top y$ and the minimiser $(X^\top X)^{-1}X^\top y$. The sizes fit only for $s=d$, tried here; they are
    $XX^\top w-Xy$ and $(XX^\top)^{-1}Xy$.
    """
    x, y = _problem(key, points, points)
    w = jnp.ones(points)
    slope = jax.grad(lambda w: 0.5 * jnp.sum((x.T @ w - y) ** 2))
    # where X is nearly singular rounding leaves its condition number squared times 1e-16 of the gradient at 0
    rounding = 1e-14 * float(jnp.linalg.cond(x)) ** 2 * float(jnp.linalg.norm(x @ y))
    yield equal("gradient, corrected", slope(w), x @ x.T @ w - x @ y)
    yield equal("gradient at the corrected estimator", slope(jnp.linalg.solve(x @ x.T, x @ y)), 0.0, atol=rounding)
    yield printed(equal("gradient", slope(w), x.T @ x @ w - x.T @ y))
    literal = slope(jnp.linalg.solve(x.T @ x, x.T @ y))
    yield printed(equal("gradient at the estimator", literal, 0.0, atol=rounding))


@claim(rows=("E02.13",), full={"repeats": 20_000})
def training_and_validation_risk(key, *, dim: Size = 10, points: Size = 50, repeats: Count = 2000):
    r"""The training error of a fitted model is too low, the error on held-out data is not.

    With $y=w_0^\top x+\sigma\xi$ and standard normal $x$ the expected risk of $w$ is $\|w-w_0\|^2+\sigma^2$. The
    empirical risk of a fixed $w$, and the validation risk of a fitted one, are unbiased. For the least-squares fit on
    $s$ points the training risk has the mean $\sigma^2(1-\frac ds)$, the expected risk
    $\sigma^2(1+\frac d{s-d-1})$. (Squared loss without the factor one half.)
    """
    w0 = jnp.ones(dim) / dim**0.5
    fixed = jnp.zeros(dim)

    def loss(prediction, y):
        return (y - prediction) ** 2

    (kept,), (held,) = train_validation_split((jnp.arange(2 * points),), 0.5, key=jax.random.fold_in(key, 1))

    def trial(key, kept, held):
        x_key, e_key = jax.random.split(key)
        x = jax.random.normal(x_key, (2 * points, dim))
        y = x @ w0 + jax.random.normal(e_key, (2 * points,))
        held_x, held_y = x[held], y[held]
        x, y = x[kept], y[kept]
        w = jnp.linalg.solve(x.T @ x, x.T @ y)
        risk = jnp.sum((w - w0) ** 2) + 1
        return {
            "fixed": empirical_risk(lambda x: fixed @ x, loss, (x, y)),
            "train": empirical_risk(lambda x: w @ x, loss, (x, y)),
            "validation": empirical_risk(lambda x: w @ x, loss, (held_x, held_y)),
            "risk": risk,
        }

    m = jax.jit(jax.vmap(trial, (0, None, None)))(jax.random.split(key, repeats), kept, held)
    low, high = 1 - dim / points, 1 + dim / (points - dim - 1)
    yield estimate("empirical risk of a fixed w", m["fixed"], 2.0, wrong=1.0)
    yield estimate("training risk of the fit", m["train"], low, wrong=1.0)
    yield estimate("expected risk of the fit", m["risk"], high, wrong=1.0)
    yield estimate("validation risk less expected risk", m["validation"] - m["risk"], 0.0, wrong=low - high)
    yield control(
        "the training data are not held out",
        estimate("training risk less expected risk", m["train"] - m["risk"], 0.0, wrong=low - high),
    )
