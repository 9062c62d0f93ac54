"""Softmax regression and stochastic gradients: argmax, gradient, unbiasedness, variance, steps (M chapter 7)."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, estimate, rate
from corollary.linear import fit_softmax, softmax, softmax_gradient, softmax_loss
from corollary.optimization import (
    batch_factor,
    batch_gradient,
    finite_sum,
    gradient_covariance,
    inverse_time,
    minimize,
    sgd,
    step_sizes,
)


@claim(rows=("M07.02",))
def smooth_argmax(key, *, classes: Size = 10, points: Size = 1000):
    r"""Softmax at a low temperature is the indicator of the largest entry.

    If the largest entry of $z\in\mathbb R^J$ is ahead of the second by $\Delta>0$, then
    $1-S_{softmax}(\beta z)_{\arg\max}\le(J-1)e^{-\beta\Delta}$, and with equality in the limit when all others are
    level. With two largest entries the limit is $(\frac12,\frac12)$: no indicator.
    """
    betas = jnp.linspace(1.0, 30.0, 30)

    @jax.jit
    def measure(key):
        z = jax.random.normal(key, (points, classes))
        top = jnp.sort(z, axis=1)
        missing = 1 - jax.vmap(lambda b: softmax(b * z).max(1))(betas).T
        level = jnp.zeros(classes).at[0].set(1.0)
        tied = z[0].at[0].set(top[0, -1] + 1).at[1].set(top[0, -1] + 1)
        others = jax.vmap(lambda b: jnp.sort(softmax(b * level))[:-1].sum())(betas)
        return missing, top[:, -1] - top[:, -2], others, jax.vmap(lambda b: 1 - softmax(b * tied).max())(betas)

    missing, gap, others, tied = measure(key)
    bound = (classes - 1) * jnp.exp(-betas * gap[:, None])
    # the probability of the largest is rounded at 1e-16
    yield at_most("what the largest entry lacks", missing, bound, atol=1e-15, x=betas, along="beta")
    yield equal(
        "others level: attained", others[-10:], (classes - 1) * jnp.exp(-betas[-10:]), rtol=1e-7, atol=0, along="beta"
    )
    yield control("a tie", at_most("what the largest entry lacks", tied[-1], (classes - 1) * jnp.exp(-betas[-1])))


def _term(theta, x, y):
    return -jax.nn.log_softmax(theta @ x)[y.astype(int)]


def _mixture(key, n, d=2):
    """Three overlapping normal classes; features with a constant appended."""
    x_key, y_key = jax.random.split(key)
    y = jax.random.randint(y_key, (n,), 0, 3)
    centres = jnp.array([[1.0, 0.0], [-0.5, 0.9], [-0.5, -0.9]])
    x = centres[y] + jax.random.normal(x_key, (n, d))
    return jnp.concatenate([x, jnp.ones((n, 1))], axis=1), y.astype(float)


@claim(rows=("M07.08", "M07.01", "M07.29"), full={"runs": 1024, "steps": 20_000})
def softmax_regression(key, *, n: Size = 200, runs: Count = 256, steps: Count = 1000):
    r"""The gradient of softmax regression, what its SGD keeps, and where it goes.

    $m(x;\theta)=S_{softmax}(\theta x)$, $\lambda=-\ln m_y$: $\nabla_\theta\lambda=-(e(y)-m)x^\top$, and for a batch
    $-\frac1{M_o}(E-P)^\top X$. Its columns sum to zero, so that SGD never changes $\sum_j\theta_{j,:}$. The loss is
    convex. From $\theta=0$ with $\eta_k=\frac{20}{40+k}$ the mean excess loss over 256 runs falls; the minimum
    is Newton's. With the labels of other examples it is no gradient.
    """

    @jax.jit
    def measure(key):
        data_key, run_key, theta_key = jax.random.split(key, 3)
        x, y = _mixture(data_key, n)
        problem = finite_sum(_term, (x, y), jnp.zeros((3, 3)), batch_size=10)
        theta = jax.random.normal(theta_key, (3, 3))
        one_hot = jax.nn.one_hot(y.astype(int), 3)
        p = jax.nn.softmax(x @ theta.T)
        formula = -jnp.einsum("nj,nd->njd", one_hot - p, x)
        best = fit_softmax(x[:, :-1], y.astype(int), 3).theta
        curvature = jnp.linalg.eigvalsh(problem.hessian(theta).reshape(9, 9))

        def run(key):
            def advance(theta, step):
                eta, k = step
                return theta - eta * problem.oracle(theta, key=jax.random.fold_in(key, k)), None

            def stretch(theta, steps):
                theta, _ = jax.lax.scan(advance, theta, steps)
                return theta, problem(theta) - problem(best)

            # one loss in ten stretches: at every step it would cost more than the step itself
            eta = step_sizes(inverse_time(20.0, 40.0), steps).reshape(10, -1)
            last, excess = jax.lax.scan(stretch, problem.start, (eta, jnp.arange(steps).reshape(10, -1)))
            return excess, last.sum(0), last

        excess, kept, last = jax.vmap(run)(jax.random.split(run_key, runs))
        batch = jnp.arange(10)
        return {
            "single": (formula, problem.gradients(theta)),
            "library": (problem.gradient(theta), softmax_gradient(theta, x[:, :-1], y.astype(int))),
            "batch": (-(one_hot - p)[:10].T @ x[:10] / 10, batch_gradient(problem, theta, batch)),
            "others": (formula, finite_sum(_term, (x, jnp.roll(y, 1)), jnp.zeros((3, 3))).gradients(theta)),
            "values": (problem(theta), softmax_loss(theta, x[:, :-1], y.astype(int))),
            "curvature": curvature,
            "excess": excess,
            "kept": kept,
            "last": last,
        }

    m = measure(key)
    yield equal("gradient of each example", *m["single"], atol=1e-13)
    yield equal("gradient of the mean", *m["library"], atol=1e-13)
    yield equal("gradient of a batch, in matrix form", *m["batch"], atol=1e-13)
    yield equal("loss", *m["values"])
    yield at_least("least curvature", m["curvature"][0], 0.0, atol=1e-13)
    yield equal("column sums of the parameters after SGD", m["kept"], 0.0, atol=1e-12)
    yield at_least("how far the parameters went", jnp.abs(m["last"]).max(), 0.5)
    mean, error = m["excess"].mean(0), m["excess"].std(0) / runs**0.5
    # the noise of the last step leaves an excess of the order of the step times the variance: far below a hundredth
    yield at_most("mean excess loss at the end, with 5 standard errors", mean[-1] + 5 * error[-1], 0.01)
    yield at_most("mean excess loss at the end, over that of a tenth of the steps", mean[-1] / mean[0], 0.5)
    yield control("the labels of other examples", equal("gradient of each example", *m["others"], atol=1e-13))


@claim(rows=("M07.05", "M07.03"))
def mean_path(key, *, examples: Size = 3, steps: Count = 6):
    r"""For linear regression the mean of stochastic gradient descent is gradient descent.

    $\theta_{k+1}=\theta_k-\eta_k\nabla\lambda_{(x_k,y_k)}(\theta_k)$ with $(x_k,y_k)$ uniform over $M$ examples. If the
    gradients are affine in $\theta$, $\mathbb E\theta_k$ obeys the recursion of gradient descent exactly: the mean
    over all $M^k$ equally likely runs, here 729. For one example SGD is gradient descent. For a logistic
    loss the mean is another one.
    """
    sequences = jnp.array(list(itertools.product(range(examples), repeat=steps)))
    schedule = inverse_time(1.0, 4.0)

    def square(theta, x, y):
        return (x @ theta - y) ** 2

    def logistic(theta, x, y):
        return jax.nn.softplus(-3 * y * (x @ theta))

    @jax.jit
    def measure(key):
        x_key, y_key = jax.random.split(key)
        x, y = jax.random.normal(x_key, (examples, 2)), jax.random.normal(y_key, (examples,))

        def both(term):
            problem = finite_sum(term, (x, y), jnp.ones(2))

            def run(sequence):
                def advance(theta, step):
                    i, eta = step
                    return theta - eta * batch_gradient(problem, theta, i[None]), None

                return jax.lax.scan(advance, problem.start, (sequence, step_sizes(schedule, steps)))[0]

            whole = minimize(problem, sgd(schedule, batch_size=examples, sampling="without"), steps=steps).theta[-1]
            return jax.vmap(run)(sequences).mean(0), whole

        alone = finite_sum(square, (x[:1], y[:1]), jnp.ones(2))
        single = minimize(alone, sgd(schedule), steps=steps, key=key).theta
        return both(square), both(logistic), (single, minimize(alone, optax.sgd(schedule), steps=steps).theta)

    affine, curved, alone = measure(key)
    yield equal("mean over all runs", *affine, rtol=1e-12)
    yield equal("one example", *alone, rtol=1e-12)
    yield control("a logistic loss", equal("mean over all runs", *curved, rtol=1e-12))


def _terms():
    """Losses of one example for softmax regression, least squares, and a small tanh network."""

    def network(theta, x, y):
        w, c = theta[:6].reshape(2, 3), theta[6:8]
        return (c @ jnp.tanh(w @ x) - y) ** 2

    return {
        "softmax": (lambda t, x, y: _term(t.reshape(3, 3), x, y), 9),
        "least squares": (lambda t, x, y: (x @ t - y) ** 2, 3),
        "tanh network": (network, 8),
    }


@claim(rows=("M07.06",), full={"draws": 100_000})
def unbiased(key, *, n: Size = 50, draws: Count = 4000):
    r"""The gradient of a random example is the full gradient on average.

    $\mathbb E[\nabla\lambda_{(x_k,y_k)}(\theta)\mid\theta]=\nabla\Lambda(\theta)$ for an example drawn uniformly:
    exactly, by the average over all examples, and for the draws that the method makes. It needs uniform draws
    (or weights) and plain gradients: drawn in proportion to their place, or scaled to length one, they are biased.
    """

    @jax.jit
    def measure(key):
        data_key, theta_key, draw_key = jax.random.split(key, 3)
        x, y = _mixture(data_key, n)
        out = {}
        for name, (term, size) in _terms().items():
            theta = jax.random.normal(theta_key, (size,))
            problem = finite_sum(term, (x, y), theta)
            each, full = problem.gradients(theta), problem.gradient(theta)
            weights = jnp.arange(1.0, n + 1) / jnp.arange(1.0, n + 1).sum()
            lengths = jnp.linalg.norm(each, axis=1, keepdims=True)
            draws_of = jax.vmap(lambda k, p=problem, t=theta: p.oracle(t, key=k))(jax.random.split(draw_key, draws))
            out[name] = each.mean(0), full, draws_of, weights @ each, (each / lengths).mean(0)
        return out

    for name, (average, full, drawn, uneven, unit) in measure(key).items():
        yield equal(f"{name}: average over all examples", average, full, atol=1e-13)
        # a wrong value one standard deviation of a single gradient away must be excluded
        yield estimate(f"{name}: draws of the method", drawn, full, wrong=full + drawn.std(0))
        yield control(f"{name}: uneven draws", equal("average", uneven, full, atol=1e-13))
        yield control(f"{name}: gradients of length one", equal("average", unit, full, atol=1e-13))


@claim(rows=("M07.15", "M07.14"), full={"draws": 50_000})
def batch_variance(key, *, examples: Size = 6, n: Size = 1000, draws: Count = 10_000):
    r"""The variance of a minibatch gradient is that of a single one divided by the size of the batch.

    $\mathrm{Var}[G_k\mid\theta_k]=\frac1{M_o}\mathrm{Var}[\nabla\lambda\mid\theta_k]$ for independent draws, with
    replacement: all $M^{M_o}$ equally likely batches, entry by entry of the covariance. Without replacement there is a
    further factor $\frac{M-M_o}{M-1}$, which is 0 for the whole data set; as in the epochs of 7.5.2.
    """
    sizes = (1, 2, 3, 4)

    @jax.jit
    def measure(key):
        data_key, theta_key, draw_key = jax.random.split(key, 3)
        theta = jax.random.normal(theta_key, (3,))
        square = _terms()["least squares"][0]
        problem = finite_sum(square, _mixture(data_key, examples), theta)
        large = finite_sum(square, _mixture(data_key, n), theta)
        drawn = jax.random.randint(draw_key, (draws, 64), 0, n)
        one = batch_gradient(large, theta, drawn[0])
        return problem.gradients(theta), gradient_covariance(problem, theta), large.gradients(theta), drawn, one

    each, single, many, drawn, one = map(np.asarray, measure(key))

    def spread(batches):
        return np.cov(each[np.array(list(batches))].mean(1).T, ddof=0)

    independent = np.stack([spread(itertools.product(range(examples), repeat=m)) for m in sizes])
    without = np.stack([spread(itertools.combinations(range(examples), m)) for m in (*sizes, examples)])
    batches = 2 ** np.arange(7)
    totals = [many[drawn[:, :batch]].mean(1).var(0).sum() for batch in batches]
    yield equal("gradient of a batch: the average", one, many[drawn[0]].mean(0))
    predicted = jnp.stack([single * batch_factor(examples, m) for m in sizes])
    yield equal("covariance over all batches, with replacement", independent, predicted)
    smaller = jnp.stack([single * batch_factor(examples, m, replacement=False) for m in (*sizes, examples)])
    yield equal("covariance over all subsets, without replacement", without, smaller)
    # a variance from 10,000 draws is good to 2 %, the slope through seven of them to 0.006, its interval ±0.025
    yield rate("variance against the batch", batches, totals, -1.0, tolerance=0.1, along="batch")
    yield control(
        "a subset in place of independent draws", equal("covariance over all subsets", without[:-1], predicted)
    )
