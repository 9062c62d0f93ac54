"""The noise of a stochastic gradient: no bias, a variance that shrinks with the batch, and what one step does."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.claims.optimization._regression import regression
from corollary.evidence import Count, Positive, Size, at_least, at_most, claim, control, equal, estimate, printed, rate
from corollary.optimization import (
    Problem,
    batch_factor,
    batch_gradient,
    example_noise,
    gradient_covariance,
    gradient_variance,
    least_squares_sum,
    minimize,
    sgd,
)


@claim(rows=("B05.25", "B05.26", "E03.16", "M18.03", "M18.04", "T02.11", "T02.28"))
def minibatch_gradient(key, *, dim: Size = 3):
    r"""A minibatch gradient has no bias, and its covariance falls like one over the batch.

    Let $f=\frac1n\sum f_i$ and let $G$ be the mean of $\nabla f_i(\theta)$ over a batch of $B$ drawn uniformly. Then
    $\mathbb EG=\nabla f(\theta)$ and $\mathrm{Cov}\,G=\frac1B\mathrm{Cov}\,\nabla f_i$ for independent draws (with
    replacement); for a random subset the covariance is multiplied by $\frac{n-B}{n-1}$, so that it vanishes at $B=n$.
    In particular $\mathbb E\|\nabla f_i\|^2=\|\nabla f\|^2+\frac1n\sum\|\nabla f_i-\nabla f\|^2$. (M says subset and
    uses the formula of independent draws.) Draws with probabilities $p_i\ne\frac1n$ are biased unless reweighted by
    $\frac1{np_i}$. All batches of $n=6$ examples are enumerated.
    """
    n = 6
    subsets = {b: np.array(list(itertools.combinations(range(n), b))) for b in range(1, n + 1)}
    tuples = {b: np.array(list(itertools.product(range(n), repeat=b))) for b in (1, 2, 3)}

    @jax.jit
    def measure(key):
        x, y, theta = regression(key, n, dim)
        problem = least_squares_sum(x, y)

        def moments(batches):
            g = jax.vmap(lambda chosen: batch_gradient(problem, theta, chosen))(batches)
            return g.mean(0), (g - g.mean(0)).T @ (g - g.mean(0)) / g.shape[0], jnp.mean(jnp.sum(g**2, 1))

        p = jnp.arange(1.0, n + 1) / (n * (n + 1) / 2)
        each = problem.gradients(theta)
        return (
            {b: moments(s) for b, s in subsets.items()},
            {b: moments(s) for b, s in tuples.items()},
            problem.gradient(theta),
            gradient_covariance(problem, theta),
            gradient_variance(problem, theta),
            p @ each,
            p @ (each / (n * p[:, None])),
        )

    without, replaced, full, covariance, variance, biased, reweighted = measure(key)
    scale = float(jnp.linalg.norm(full) + jnp.sqrt(variance))
    small = {"rtol": 1e-10, "atol": 1e-12 * scale}
    means = jnp.stack([m for m, _, _ in (*without.values(), *replaced.values())])
    yield equal("mean over all batches, every size and both ways", means, jnp.broadcast_to(full, means.shape), **small)
    wider = {"rtol": 1e-10, "atol": 1e-12 * scale**2}
    predicted = jnp.stack([batch_factor(n, b) * covariance for b in replaced])
    yield equal("covariance with replacement", jnp.stack([c for _, c, _ in replaced.values()]), predicted, **wider)
    predicted = jnp.stack([batch_factor(n, b, replacement=False) * covariance for b in without])
    measured = jnp.stack([c for _, c, _ in without.values()])
    yield equal("covariance without replacement", measured, predicted, **wider)
    sizes = jnp.array(list(replaced))
    moment = jnp.stack([s for _, _, s in replaced.values()])
    yield equal("second moment with replacement", moment, full @ full + variance / sizes)
    yield equal("uneven draws, reweighted", reweighted, full, **small)
    yield control("uneven draws, not reweighted", equal("mean", biased, full, **small))
    iid = jnp.stack([batch_factor(n, b) * covariance for b in without])
    yield control(
        "a subset in place of independent draws", equal("covariance with replacement", measured, iid, **wider)
    )


@claim(
    rows=("M18.04",),
    erratum="The minibatch is said to be a random subset; the variance printed is that of independent draws, too large "
    "by the factor (n - 1)/(n - batch).",
)
def subset_variance_printed(key, *, n: Size = 6, dim: Size = 3):
    r"""As printed: the gradient of a random subset of the data has one Mth of the variance of a single gradient.

    M, 18.2: "a randomly selected subset $\mathcal D'\subset\mathcal D$ of cardinality $M_o$", and
    $\mathrm{Var}(G^{(M_o)})=\frac1{|\mathcal D'|}\mathrm{Var}(\nabla\lambda_{(x_j,y_j)})$. All subsets of two and of
    three out of six examples: $\frac{n-M_o}{n-1}$ of that.
    """
    subsets = {b: np.array(list(itertools.combinations(range(n), b))) for b in (2, 3)}

    @jax.jit
    def measure(key):
        x, y, theta = regression(key, n, dim)
        problem = least_squares_sum(x, y)
        every = [jax.vmap(lambda chosen: batch_gradient(problem, theta, chosen))(s) for s in subsets.values()]
        return jnp.stack([g.var(0).sum() for g in every]), gradient_variance(problem, theta)

    found, single = measure(key)
    sizes = np.array(list(subsets))
    yield equal("variance over all subsets, with the factor", found, single / sizes * (n - sizes) / (n - 1))
    yield printed(equal("variance over all subsets, as printed", found, single / sizes, x=sizes, along="batch"))


@claim(rows=("T02.11",))
def follows_gradient_descent(key, *, n: Size = 100, dim: Size = 5, runs: Count = 256):
    r"""With a small step, stochastic gradient descent stays within the root of the step of gradient descent.

    On least squares over a fixed time $\eta K=1$ the root mean square of $\max_k\|\theta_k-\theta_k^{GD}\|$ is of the
    order $\sqrt{\eta/B}$: slope $\frac12$ in the step and $-\frac12$ in the batch. Gradients that are biased, here by
    draws that favour small labels, lead away from it however small the step.
    """
    steps = np.array([16, 32, 64, 128, 256])
    batches = np.array([1, 2, 4, 8, 16])
    longest, widest = int(steps[-1]), int(batches[-1])

    @jax.jit
    def measure(key):
        data_key, run_key = jax.random.split(key)
        x, y, start = regression(data_key, n, dim)
        # unit mean size of an example: then every step here is stable; in the order of the labels
        order = jnp.argsort(y)
        x, y = x[order] / jnp.sqrt(dim), y[order]
        problem = least_squares_sum(x, y, start)

        def deviation(k, batch, power):
            def one(key):
                def advance(state, inputs):
                    # one program for all: steps of size 0 after k of them, and the first `batch` of the draws
                    i, key = inputs
                    noisy, plain = state
                    eta = jnp.where(i < k, 1.0 / k, 0.0)
                    # uniform for the power 1, early examples more often for a larger one
                    chosen = (n * jax.random.uniform(key, (widest,)) ** power).astype(int)
                    used = jnp.where(jnp.arange(widest) < batch, 1.0 / batch, 0.0)
                    slope = (used * (x[chosen] @ noisy - y[chosen])) @ x[chosen]
                    state = noisy - eta * slope, plain - eta * problem.gradient(plain)
                    return state, jnp.sum((state[0] - state[1]) ** 2)

                inputs = jnp.arange(longest), jax.random.split(key, longest)
                return jax.lax.scan(advance, (start, start), inputs)[1].max()

            return jnp.sqrt(jax.vmap(one)(jax.random.split(run_key, runs)).mean())

        one, other = jnp.ones(len(steps)), jnp.full(len(batches), 64.0)
        ks = jnp.concatenate([steps, other, steps])
        bs = jnp.concatenate([one, jnp.asarray(batches, float), one])
        powers = jnp.concatenate([one, jnp.ones(len(batches)), 3 * one])
        return jnp.split(jax.lax.map(lambda case: deviation(*case), (ks, bs, powers)), 3)

    in_step, in_batch, biased = measure(key)
    # the maximum over the path has corrections of relative order sqrt(eta); 256 runs give each point about 3 %
    yield rate("distance against the step", 1.0 / steps, in_step, 0.5, tolerance=0.1, along="step")
    yield rate("distance against the batch", batches, in_batch, -0.5, tolerance=0.1, along="batch")
    yield control(
        "draws that favour small labels", rate("distance against the step", 1.0 / steps, biased, 0.5, tolerance=0.1)
    )


@claim(rows=("M18.06",))
def epochs(key, *, dim: Size = 2, step: Positive = 0.3, draws: Count = 2000):
    r"""In an epoch each batch is unbiased at a fixed point, biased given the batches before it.

    Partition $n=6$ examples at random into three batches of $B=2$. At a fixed $\theta$ every batch gradient has mean
    $\nabla f(\theta)$. Given the first batch $S$, the second has mean
    $\frac{n\nabla f-B\nabla f_S}{n-B}$: this, and not the marginal law, is the bias M speaks of. At the iterate
    $\theta_1(S)$ that the first batch leads to, the second one is biased even on average. Draws with replacement have
    no bias, but $n$ of them see only $1-(1-\frac1n)^n$ of the examples.
    """
    n, batch = 6, 2
    ordered = np.array([p for p in itertools.permutations(range(n), 2 * batch) if p[0] < p[1] and p[2] < p[3]])

    @jax.jit
    def measure(key):
        data_key, draw_key = jax.random.split(key)
        x, y, theta = regression(data_key, n, dim)
        problem = least_squares_sum(x, y, theta)
        first, second = ordered[:, :batch], ordered[:, batch:]
        g = jax.vmap(lambda chosen: batch_gradient(problem, theta, chosen))
        one, two = g(first), g(second)
        given = two.reshape(-1, 6, dim).mean(1)  # for each first batch six second ones
        full = problem.gradient(theta)
        moved = theta - step * one
        at_moved = jax.vmap(lambda t, chosen: batch_gradient(problem, t, chosen))(moved, second)
        bias = (at_moved - jax.vmap(problem.gradient)(moved)).mean(0)
        seen = jax.vmap(lambda k: jnp.zeros(n).at[jax.random.randint(k, (n,), 0, n)].set(1.0).mean())(
            jax.random.split(draw_key, draws)
        )
        # one epoch of ours, as counts: every example once
        path = minimize(problem, sgd(step, batch_size=batch, sampling="reshuffle"), steps=1, key=draw_key).theta
        distances = jnp.linalg.norm(theta - step * one - path[1], axis=1)
        return one.mean(0), two.mean(0), given, (n * full - batch * one[::6]) / (n - batch), full, bias, seen, distances

    one, two, given, predicted, full, bias, seen, distances = measure(key)
    small = {"rtol": 1e-10, "atol": 1e-11 * float(jnp.abs(predicted).max())}
    yield equal("first and second batch at a fixed point", jnp.stack([one, two]), jnp.stack([full, full]), **small)
    yield equal("second batch, given the first", given, predicted, **small)
    yield equal("the library's first step is one of the enumerated", distances.min(), 0.0, atol=1e-12)
    yield at_least("bias at the iterate the first batch led to", jnp.linalg.norm(bias), 1e-6)
    yield estimate("share seen in one epoch with replacement", seen, 1 - (1 - 1 / n) ** n, wrong=1.0)
    fixed = jnp.broadcast_to(full, given.shape)
    yield control("the first batch is known", equal("second batch at a fixed point", given, fixed, **small))


@claim(rows=("M18.18",))
def martingale(key, *, dim: Size = 3, n: Size = 20, steps: Count = 60, runs: Count = 4000):
    r"""The noise of the steps is a martingale, and decreasing steps make its tail small.

    Write $\theta_{k+1}=\theta_k-\eta_k\nabla f(\theta_k)+\eta_kR_k$. Then $\mathbb E[R_k|\theta_k]=0$;
    $f(\theta_K)-f(\theta_0)=\sum(-\eta_k\|\nabla f(\theta_k)\|^2+\eta_k\nabla f(\theta_k)\cdot
    R_k+\frac{\eta_k^2}2g_k^\top Hg_k)$ on a quadratic with Hessian $H$, $g_k=\nabla f(\theta_k)-R_k$; and the terms
    $\eta_k\nabla f(\theta_k)\cdot R_k$ are uncorrelated: $\mathbb E(\sum_{i=k}^{K}\eta_i\nabla f\cdot
    R_i)^2=\sum_{i=k}^K\eta_i^2\mathbb E(\nabla f\cdot R_i)^2$, at most $C\sum_{i\ge k}\eta_i^2$ with
    $C=\max_i\mathbb E(\nabla f\cdot R_i)^2$, the tail of a convergent sum. M would like to prove "in the appropriate
    sense" that $R_k\to0$; what tends to 0 is $\eta_kR_k$, while $\mathbb E\|R_k\|^2$ tends to that at the minimiser,
    $\frac1n\sum\|\nabla f_i(\theta^*)\|^2$.
    """
    starts = np.array([0, 10, 30])

    @jax.jit
    def measure(key):
        data_key, run_key = jax.random.split(key)
        x, y, start = regression(data_key, n, dim)
        x = x / jnp.sqrt(dim)
        problem = least_squares_sum(x, y, start)
        hessian = problem.hessian(start)
        etas = 1.0 / (4.0 + jnp.arange(1, steps + 1))

        def one(key):
            def advance(theta, inputs):
                eta, key = inputs
                full = problem.gradient(theta)
                g = batch_gradient(problem, theta, jax.random.randint(key, (1,), 0, n))
                noise = full - g
                terms = -eta * full @ full, eta * full @ noise, eta**2 / 2 * g @ hessian @ g
                return theta - eta * g, (*terms, noise @ noise)

            end, terms = jax.lax.scan(advance, start, (etas, jax.random.split(key, steps)))
            return problem(end) - problem(start), terms

        change, (first, second, third, size) = jax.vmap(one)(jax.random.split(run_key, runs))
        at = jax.random.normal(run_key, (50, dim))
        residual = jnp.abs(jax.vmap(lambda t: example_noise(problem, t).mean(0))(at)).max()
        return change, first, second, third, size, residual, gradient_variance(problem, problem.minimiser)

    change, first, second, third, size, residual, floor = (np.asarray(a) for a in measure(key))
    total = (first + second + third).sum(1)
    yield equal("change of the value, split", change, total, rtol=1e-9, atol=1e-10 * np.abs(first).sum(1).max())
    yield equal("mean noise at fifty points", residual, 0.0, atol=1e-12)
    tails = np.stack([second[:, k:].sum(1) for k in starts], 1)
    # the difference of both sides has mean 0: cross terms, and nothing else
    squares = np.stack([(second[:, k:] ** 2).sum(1) for k in starts], 1)
    predicted = squares.mean(0)
    yield estimate("squared tail less the sum of squares", (tails**2 - squares) / predicted, 0.0, wrong=1.0)
    etas = 1.0 / (4.0 + np.arange(1, steps + 1))
    largest = (second**2).mean(0) / etas**2
    bound = np.array([largest.max() * np.sum(etas[k:] ** 2) for k in starts])
    upper = (tails**2).mean(0) + 5 * (tails**2).std(0) / runs**0.5
    yield at_most("mean square of the tail, with 5 standard errors", upper, bound, x=starts, along="first step")
    yield at_least("mean square of the noise itself, last ten steps", size[:, -10:].mean(), 0.5 * floor)
    drifting = tails + first[:, starts[0] :].sum(1, keepdims=True)
    yield control(
        "increments with a drift",
        estimate("squared tail less the sum of squares", (drifting**2 - squares) / predicted, 0.0, wrong=1.0),
    )


@claim(rows=("M18.02", "B05.24", "T02.10"))
def methods(key, *, n: Size = 24, dim: Size = 3, steps: Count = 48):
    r"""Stochastic gradient descent of the texts is Optax's, fed with batches.

    $\theta_{k+1}=\theta_k-\eta_k\frac1B\sum_{i\in S_k}\nabla f_i(\theta_k)$: with $n=B$ without replacement it is
    gradient descent; epoch by epoch every example is used once in $n/B$ steps; with replacement not.
    """

    @jax.jit
    def measure(key):
        data_key, run_key = jax.random.split(key)
        x, y, start = regression(data_key, n, dim)
        problem = least_squares_sum(x / jnp.sqrt(dim), y, start)
        eta = 0.1

        def run(method):
            return minimize(problem, method, steps=steps, key=run_key).theta

        def recursion(theta, k):
            chosen = jax.random.randint(jax.random.fold_in(run_key, k), (4,), 0, n)
            theta = theta - eta * problem.gradients(theta)[chosen].mean(0)
            return theta, theta

        by_hand = jax.lax.scan(recursion, start, jnp.arange(steps))[1]
        return (
            (run(sgd(eta, batch_size=4))[1:], by_hand),
            run(sgd(eta, batch_size=n, sampling="without")),
            minimize(Problem(problem.function, problem.data, start), optax.sgd(eta), steps=steps).theta,
            run(sgd(eta, batch_size=4, sampling="reshuffle"))[1:],
        )

    (ours, by_hand), all_of_them, descent, shuffled = measure(key)
    yield equal("batches with replacement: the recursion", ours, by_hand, rtol=1e-10)
    yield equal("all examples without replacement: gradient descent", all_of_them, descent, rtol=1e-10)
    yield control("another order of the examples", equal("epochs", shuffled, by_hand, rtol=1e-10))
