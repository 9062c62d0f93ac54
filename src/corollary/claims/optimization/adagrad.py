"""AdaGrad as a matrix, by coordinate and as a number: what it computes, and what it is free of."""

import jax
import jax.numpy as jnp
import optax

from corollary.evidence import Count, Positive, Size, at_least, at_most, claim, control, equal, printed
from corollary.optimization import (
    adagrad,
    adagrad_full,
    adagrad_norm,
    adagrad_shifted,
    finite_sum,
    flattest,
    minimize,
    quadratic,
    random_quadratic,
)


def _steps_under(method, gradients):
    """What `method` does with a given sequence of gradients (k, d)."""

    def see(state, g):
        step, state = method.update(g, state)
        return state, step

    return jax.lax.scan(see, method.init(gradients[0]), gradients)[1]


@claim(rows=("M18.26", "T02.29"))
def full_matrix_turns_along(key, *, dim: Size = 5, steps: Count = 30, eta: Positive = 0.5):
    r"""Full-matrix AdaGrad does not know the coordinates, diagonal AdaGrad does.

    $G_k=\sum_{i\le k}g_ig_i^\top$, $\theta_{k+1}=\theta_k-\eta\,(G_k+\epsilon I)^{-1/2}g_k$. For an orthogonal $Q$ the
    iterates for $\theta\mapsto f(Q\theta)$ from $Q^\top\theta_0$ are $Q^\top$ times those for $f$. With $\epsilon=0$
    and the pseudo-inverse ($G_k$ is singular for $k<d$; $g_k$ is in its range) they are the same for $cf$, $c>0$, and
    the first step has length $\eta$. Algorithm 3 of T returns the iterate with the smallest gradient.
    """

    @jax.jit
    def measure(key):
        problem_key, turn_key, scale_key = jax.random.split(key, 3)
        spectrum = jnp.linspace(0.2, 2.0, dim)
        axes_key, start_key = jax.random.split(problem_key)
        axes = jnp.linalg.qr(jax.random.normal(axes_key, (dim, dim)))[0]
        turn = jnp.linalg.qr(jax.random.normal(turn_key, (dim, dim)))[0]
        start = jax.random.normal(start_key, (dim,))
        c = 10 ** jax.random.uniform(scale_key, (), minval=-3, maxval=3)

        def run(method, problem):
            return minimize(problem, method, steps=steps)

        plain = quadratic(spectrum, start, rotation=axes)
        turned = quadratic(spectrum, turn.T @ start, rotation=turn.T @ axes)
        scaled = quadratic(c * spectrum, start, rotation=axes)
        full, diagonal = adagrad_full(eta, eps=1e-4), adagrad(eta)
        exact = adagrad_full(eta)
        path = run(full, plain)
        return (
            (path.theta, run(full, turned).theta @ turn.T),
            (run(diagonal, plain).theta, run(diagonal, turned).theta @ turn.T),
            (run(exact, plain).theta[:dim], run(exact, scaled).theta[:dim]),
            (jnp.linalg.norm(plain.gradient(flattest(path))), path.gradient_norm[:-1].min()),
        )

    (full, full_turned), (diagonal, diagonal_turned), (exact, scaled), (returned, least) = measure(key)
    # roots of eigenvalues down to eps = 1e-4 lose four digits more than the matrices have, a few in every step
    yield equal("iterates for the turned function, turned back", full_turned, full, rtol=1e-7, atol=1e-8)
    # the smallest of the first eigenvalues may be 1e-8 of the largest, its root 1e-4
    yield equal("iterates for a multiple of the function", scaled, exact, rtol=1e-5, atol=1e-5)
    yield equal("length of the first step", jnp.linalg.norm(exact[1] - exact[0]), eta)
    yield equal("gradient at the point that is returned", returned, least)
    yield control(
        "the diagonal in place of the full matrix",
        equal("iterates for the turned function, turned back", diagonal_turned, diagonal, rtol=1e-7, atol=1e-8),
    )


@claim(rows=("M18.27", "E03.14", "T02.34", "T02.29"))
def scale_free_by_coordinate(key, *, dim: Size = 6, steps: Count = 60, eta: Positive = 0.3):
    r"""Diagonal AdaGrad divides every coordinate by the root of its own accumulated squares.

    $u_{k+1}=u_k+g_k\odot g_k$, $\theta_{k+1}=\theta_k-\frac\eta{\epsilon+\sqrt{u_{k+1}}}\odot g_k$, $u_0=0$ (M Remark
    18.14, E 3.3). With $\epsilon=0$: it is Optax's without offsets; the first step is $\eta\,\mathrm{sign}(g_0)$;
    scaling one coordinate of all gradients leaves its steps as they are; under a constant gradient
    $\theta_k=\theta_0-\eta\,\mathrm{sign}(g)\sum_{i\le k}i^{-1/2}$, so the effective rate falls like $k^{-1/2}$. The
    form of T, $P_t=(\sigma^2+\sum_{i<t}g_i\odot g_i)^{-1/2}$, is scale-free if $\sigma$ is scaled along. On a
    separable function both treat every coordinate as if it were alone.
    """
    k = jnp.arange(1, steps + 1)

    @jax.jit
    def measure(key):
        problem_key, g_key, c_key = jax.random.split(key, 3)
        problem = random_quadratic(dim, 30.0, key=problem_key)
        path = minimize(problem, adagrad(eta, eps=1e-3), steps=steps).theta
        gradients = jax.vmap(problem.gradient)(path[:-1])
        bare = minimize(problem, adagrad(eta, eps=0.0), steps=steps).theta
        theirs = minimize(problem, optax.adagrad(eta, initial_accumulator_value=0.0, eps=0.0), steps=steps).theta
        g = jax.random.normal(g_key, (steps, dim))
        c = 10 ** jax.random.uniform(c_key, (dim,), minval=-3, maxval=3)
        free = adagrad(eta, eps=0.0)
        constant = jnp.broadcast_to(g[0], g.shape)
        spectrum = jnp.linspace(0.5, 3.0, dim)

        def separate(method):
            together = minimize(quadratic(spectrum, c), method, steps=steps).theta
            alone = jax.vmap(lambda s, c: minimize(quadratic(s[None], c[None]), method, steps=steps).theta[:, 0])
            return together, alone(spectrum, c).T

        shifted = jax.vmap(lambda g, s: _steps_under(adagrad_shifted(s, eta), g[:, None])[:, 0], (1, 0), 1)
        return {
            "path": (path, gradients),
            "Optax": (bare, theirs),
            "scaled": (_steps_under(free, g), _steps_under(free, g * c)),
            "constant": (_steps_under(free, constant), jnp.sign(g[0])),
            "shifted": (shifted(g, jnp.full(dim, 2.0)), shifted(g * c, 2.0 * c)),
            "separate": (separate(adagrad(eta)), separate(adagrad_shifted(2.0, eta))),
            "plain": (_steps_under(optax.sgd(eta), g), _steps_under(optax.sgd(eta), g * c)),
        }

    found = measure(key)
    path, gradients = found["path"]
    unrolled = path[0] - eta * jnp.cumsum(gradients / (1e-3 + jnp.sqrt(jnp.cumsum(gradients**2, 0))), 0)
    yield equal("iterates from the accumulated squares", path[1:], unrolled)
    yield equal("Optax without offsets", *found["Optax"])
    yield equal("steps when coordinates of the gradients are scaled", found["scaled"][1], found["scaled"][0])
    yield equal("form of T, sigma scaled along", found["shifted"][1], found["shifted"][0])
    steps_taken, sign = found["constant"]
    yield equal("constant gradient: step k", jnp.abs(steps_taken).T, eta / jnp.sqrt(k), x=k, along="step")
    moved = -eta * sign[:, None] * jnp.cumsum(1 / jnp.sqrt(k))
    yield equal("constant gradient: way", jnp.cumsum(steps_taken, 0).T, moved, x=k, along="step")
    for name, pair in zip(("M", "T"), found["separate"], strict=True):
        yield equal(f"separable function, coordinates together and alone: {name}", *pair)
    yield control(
        "no division by past gradients: gradient descent",
        equal("steps when coordinates of the gradients are scaled", *found["plain"][::-1]),
    )


@claim(
    rows=("M18.27",),
    erratum="The diagonal of the inverse root of G is not the inverse root of its diagonal; the latter is meant.",
)
def diagonal_of_the_inverse_root(key, *, dim: Size = 4, steps: Count = 40):
    r"""The adaptive rate of AdaGrad by coordinate is the diagonal of the inverse root of G.

    As printed in 18.5.1: the diagonal form of AdaGrad has the rates $\eta\cdot\mathrm{diag}(G_k^{-1/2})$, and that of
    Remark 18.14, with the rates $\eta/\sqrt{(G_k)_{jj}}$, is called "equivalent". For gradients that are correlated
    these are different numbers. Corrected: $\eta\cdot\mathrm{diag}(G_k)^{-1/2}$.
    """
    g = jax.random.normal(key, (steps, dim)) @ (jnp.eye(dim) + 1.0)
    total = g.T @ g
    values, vectors = jnp.linalg.eigh(total)
    taken = jnp.abs(_steps_under(adagrad(1.0, eps=0.0), g)[-1] / g[-1])
    yield equal("rate of each coordinate: inverse root of the diagonal", taken, 1 / jnp.sqrt(jnp.diagonal(total)))
    root = ((vectors / jnp.sqrt(values)) * vectors).sum(1)
    yield printed(equal("rate of each coordinate: diagonal of the inverse root", taken, root))


@claim(rows=("M18.27",))
def rare_feature(key, *, runs: Size = 256, n: Size = 400, rare: Size = 8, batch: Size = 10, steps: Count = 500):
    r"""AdaGrad learns the weight of a rare feature sooner than stochastic gradient descent with the same step.

    Logistic regression in which one feature is present in 2 % of the examples, all of one class, and five are always
    present. The median number of steps until the weight of the rare one is 1 is at least three times as large for
    gradient descent, with the same learning rate and batches.
    """

    def term(theta, x, y):
        return jax.nn.softplus(-y * (x @ theta))

    @jax.jit
    def measure(key):
        x_key, y_key, run_key = jax.random.split(key, 3)
        seldom = (jnp.arange(n) < rare).astype(float)
        x = jnp.concatenate([jax.random.rademacher(x_key, (n, 5), float), seldom[:, None]], axis=1)
        noisy = jnp.sign(x[:, :5].sum(1) + 2 * jax.random.normal(y_key, (n,)))
        y = jnp.where(seldom > 0, 1.0, noisy)
        problem = finite_sum(term, (x, y), jnp.zeros(6), batch_size=batch)

        def arrival(method):
            def one(k):
                weight = minimize(problem, method, steps=steps, key=k).theta[:, -1]
                return jnp.where((weight >= 1).any(), jnp.argmax(weight >= 1), steps + 1)

            return jnp.median(jax.vmap(one)(jax.random.split(run_key, runs)))

        return arrival(adagrad(0.3)), arrival(optax.sgd(0.3))

    adaptive, plain = measure(key)
    yield at_least("steps of gradient descent over steps of AdaGrad", plain / adaptive, 3.0)


@claim(rows=("T02.30",))
def norm_is_free_of_scale(key, *, dim: Size = 6, steps: Count = 60):
    r"""AdaGrad-norm starts with a step of length one, whatever the scale of the function.

    $w_{t+1}=w_t-\big(\sum_{i\le t}\|g_i\|^2\big)^{-1/2}g_t$: for $cf$, $c>0$, the iterates are those for $f$,
    also when the coordinates are turned. The scale that matters is that of $w$: the first step has length 1.
    """

    @jax.jit
    def measure(key):
        problem_key, c_key = jax.random.split(key)
        problem = random_quadratic(dim, 30.0, key=problem_key)
        c = 10 ** jax.random.uniform(c_key, (), minval=-3, maxval=3)
        spectrum, axes = jnp.linalg.eigh(problem.data[0])
        centre = problem.data[1]

        def run(scale, method):
            multiple = quadratic(scale * spectrum, problem.start, minimiser=centre, rotation=axes)
            return minimize(multiple, method, steps=steps).theta

        return run(1.0, adagrad_norm()), run(c, adagrad_norm()), run(1.0, optax.sgd(0.5)), run(c, optax.sgd(0.5))

    plain, scaled, descent, descent_scaled = measure(key)
    yield equal("length of the first step", jnp.linalg.norm(plain[1] - plain[0]), 1.0)
    yield equal("iterates for a multiple of the function", scaled, plain)
    moved = jnp.linalg.norm(descent_scaled[1] - descent_scaled[0])
    yield control(
        "no division by past gradients: gradient descent",
        equal("way in the first step for a multiple", moved, jnp.linalg.norm(descent[1] - descent[0])),
    )


@claim(rows=("T02.34",))
def preconditioner_from_the_past(key, *, sigma: Positive = 5.0):
    r"""Only a preconditioner that does not know the present gradient keeps a step unbiased.

    If $P_t$ is determined by the past, $\mathbb E[\nabla_tP_t\hat\nabla_t]=\mathbb E[P_t]\nabla_t^2$ for unbiased
    $\hat\nabla_t$. With $P_1=1/|\hat\nabla_1|$ (T, Theorem 2.5.4) that fails: an oracle that shows $K$ with
    probability $q<\frac12$ and $-1$ otherwise, with mean $\mu>0$, makes the expected first step point uphill.
    """
    q = jax.random.uniform(key, (), minval=0.1, maxval=0.4)
    probabilities = jnp.array([q, 1 - q])
    shown = jnp.array([(1 - q + 0.1) / q, -1.0])  # the mean is 0.1
    mean = probabilities @ shown

    def expected(method):
        steps = jax.vmap(lambda g: _steps_under(method, g[None, None])[0, 0])(shown)
        return mean * probabilities @ -steps, mean**2 * probabilities @ (-steps / shown)

    past, past_predicted = expected(adagrad_shifted(sigma))
    present, present_predicted = expected(adagrad_norm())
    yield equal("expected descent, preconditioner from the past", past, past_predicted)
    yield at_most("expected descent, preconditioner with the present gradient", present, 0.0)
    yield control("a preconditioner with the present gradient", equal("expected descent", present, present_predicted))
