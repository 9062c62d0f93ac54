"""Polyak's heavy ball: its forms, its flow, where it converges and where it does not."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.evidence import (
    Count,
    Positive,
    Probability,
    Size,
    at_least,
    at_most,
    claim,
    control,
    equal,
    printed,
    rate,
)
from corollary.optimization import (
    Problem,
    damped_oscillator,
    heavy_ball,
    heavy_ball_matrix,
    heavy_ball_of_flow,
    minimize,
    nesterov,
    quadratic,
    random_quadratic,
)


def _problems(key, dim):
    """A quadratic and the loss of a small network with tanh units, which is not convex."""
    quadratic_key, x_key, y_key, start_key = jax.random.split(key, 4)
    x, y = jax.random.normal(x_key, (20, 2)), jax.random.normal(y_key, (20,))

    def network(theta, x, y):
        inner, outer = theta[:8].reshape(2, 4), theta[8:]
        return 0.5 * jnp.mean((jnp.tanh(x @ inner) @ outer - y) ** 2)

    return {
        "quadratic": random_quadratic(dim, 50.0, key=quadratic_key),
        "tanh network": Problem(network, (x, y), jax.random.normal(start_key, (12,))),
    }


@claim(rows=("M17.17", "M17.18", "T02.12", "T02.14", "E03.12"))
def forms(key, *, dim: Size = 10, steps: Count = 500, step: Positive = 0.1, momentum: Probability = 0.9):
    r"""All forms of the heavy ball walk the same path.

    With a constant step $\eta$, $\rho\in[0,1)$ and $\theta_{-1}=\theta_0$, $u_0=0$, these give the same iterates, for
    any differentiable $f$: $\theta_{k+1}=\theta_k-\eta\nabla f(\theta_k)+\rho(\theta_k-\theta_{k-1})$ (T, E, M);
    $u_{k+1}=\rho u_k-\nabla f(\theta_k)$, $\theta_{k+1}=\theta_k+\eta u_{k+1}$ (T; M, 17.4), which is Optax's;
    $u_{k+1}=\rho u_k-\eta\nabla f(\theta_k)$, $\theta_{k+1}=\theta_k+u_{k+1}$ (M, 17.6);
    $u_{k+1}=(1+\rho)\theta_k-\rho\theta_{k-1}$, $\theta_{k+1}=u_{k+1}-\eta\nabla f(\theta_k)$ (M, printed with $u_k$);
    and the moving average $u_{k+1}=\rho u_k+(1-\rho)\nabla f(\theta_k)$,
    $\theta_{k+1}=\theta_k-\frac\eta{1-\rho}u_{k+1}$ (M, 17.5). A step that varies tells them apart.
    """
    others = ("velocity", "scaled velocity", "intermediate", "average")

    @jax.jit
    def measure(key):
        def paths(problem):
            reference = minimize(problem, heavy_ball(step, momentum, form="difference"), steps=steps).theta
            rest = [
                minimize(
                    problem,
                    heavy_ball(step / (1 - momentum) if form == "average" else step, momentum, form=form),
                    steps=steps,
                ).theta
                for form in others
            ]
            return reference, jnp.stack([*rest, minimize(problem, optax.sgd(step, momentum), steps=steps).theta])

        problems = _problems(key, dim)
        shrinking = [
            minimize(problems["quadratic"], heavy_ball(lambda k: step / (1 + 0.01 * k), momentum, form=form), steps=30)
            for form in ("difference", "velocity")
        ]
        return {name: paths(p) for name, p in problems.items()}, [path.theta for path in shrinking]

    found, varying = measure(key)
    for name, (reference, rest) in found.items():
        # rounding errors of different order, which a contracting path does not blow up
        scale = float(jnp.abs(reference).max())
        for form, path in zip((*others, "Optax"), rest, strict=True):
            yield equal(f"{name}: {form}", path[1:], reference[1:], atol=1e-10 * scale)
    yield control("a step that shrinks", equal("velocity against difference", varying[1], varying[0], atol=1e-10))


@claim(
    rows=("M17.17",),
    erratum="The form with an intermediate point is printed with the point of the step before: it must be u at k + 1.",
)
def printed_intermediate(key, *, dim: Size = 10, step: Positive = 0.1, momentum: Probability = 0.9):
    r"""The form with an intermediate point, as printed, is the heavy ball.

    As printed: $u_{k+1}=(1+\rho)\theta_k-\rho\theta_{k-1}$, $\theta_{k+1}=u_k-\eta\nabla f(\theta_k)$, said to be
    equivalent to $\theta_{k+1}=\theta_k-\eta\nabla f(\theta_k)+\rho(\theta_k-\theta_{k-1})$. It lags one step behind
    (here $u_0=\theta_0$, the kindest start). Corrected: $\theta_{k+1}=u_{k+1}-\eta\nabla f(\theta_k)$.
    """

    @jax.jit
    def measure(key):
        problem = random_quadratic(dim, 50.0, key=key)

        def walk(late):
            def advance(state, _):
                theta, last, u = state
                ahead = (1 + momentum) * theta - momentum * last
                new = (u if late else ahead) - step * problem.gradient(theta)
                return (new, theta, ahead), new

            return jax.lax.scan(advance, (problem.start,) * 3, length=20)[1]

        return walk(True), walk(False), minimize(problem, heavy_ball(step, momentum), steps=20).theta[1:]

    late, corrected, right = measure(key)
    yield equal("corrected form against the heavy ball", corrected[:, 0], right[:, 0], atol=1e-10, along="iteration")
    yield printed(equal("printed form against the heavy ball", late[:, 0], right[:, 0], atol=1e-10, along="iteration"))


@claim(
    rows=("T02.12",),
    erratum="The momentum term is said to be β times the step being made; it is β times the step before it.",
)
def printed_momentum_term(key, *, dim: Size = 10, step: Positive = 0.1, momentum: Probability = 0.9):
    r"""The momentum term of the heavy ball is β times the difference of the next and the current point.

    As printed: "$\beta(w_{t+1}-w_t)$ is the so-called momentum term", below the right recursion $w_{t+1}=w_t-\eta\nabla
    f(w_t)+\beta(w_t-w_{t-1})$. Measured along the heavy ball in its form with a velocity: what a step adds to the
    gradient step, $w_{t+1}-w_t+\eta\nabla f(w_t)$. Corrected: it is $\beta(w_t-w_{t-1})$, as in the recursion. (With
    the printed term the equation for $w_{t+1}$ has the solution $w_t-\frac\eta{1-\beta}\nabla f(w_t)$: gradient descent
    with a longer step, without memory.)
    """

    @jax.jit
    def measure(key):
        problem = random_quadratic(dim, 50.0, key=key)
        path = minimize(problem, heavy_ball(step, momentum, form="velocity"), steps=30).theta
        moved = jnp.diff(path, axis=0)
        added = moved + step * jax.vmap(problem.gradient)(path[:-1])
        return added[1:, 0], momentum * moved[:-1, 0], momentum * moved[1:, 0]

    added, before, being_made = measure(key)
    yield equal("what a step adds: momentum times the step before", added, before, atol=1e-10, along="iteration")
    yield printed(
        equal("what a step adds: momentum times the step itself", added, being_made, atol=1e-10, along="iteration")
    )


@claim(rows=("T02.16", "M17.18"))
def velocity_sum(key, *, dim: Size = 10, steps: Count = 100, step: Positive = 0.1, momentum: Probability = 0.9):
    r"""The velocity is a geometrically weighted sum of all past gradients.

    With a constant step, $u_k=\frac{\theta_{k+1}-\theta_k}\eta=-\sum_{s\le k}\rho^{k-s}\nabla f(\theta_s)$ for the
    heavy ball, and for Nesterov's method the same with the gradients at the points
    $\theta_s+\rho(\theta_s-\theta_{s-1})$. Normalised by $1-\rho$ the weights are those of a moving average and sum to
    $1-\rho^{k+1}$: that is how far a constant unit gradient carries the average form in step $k$.
    """
    k = np.arange(steps)
    weights = np.where(k[:, None] >= k, momentum ** np.maximum(k[:, None] - k, 0), 0.0)

    @jax.jit
    def measure(key):
        def sums(problem, method, ahead):
            theta = minimize(problem, method, steps=steps).theta
            before = jnp.concatenate([theta[:1], theta[:-1]])
            at = theta + momentum * (theta - before) if ahead else theta
            return jnp.diff(theta, axis=0) / step, -weights @ jax.vmap(problem.gradient)(at[:-1])

        slope = Problem(lambda theta: theta, (), jnp.zeros(()))
        average = minimize(slope, heavy_ball(1.0, momentum, form="average"), steps=steps).theta
        varying = heavy_ball(lambda k: step / (1 + 0.01 * k), momentum, form="difference")
        problems = _problems(key, dim)
        return (
            {
                f"{name}, {label}": sums(problem, method(step, momentum), ahead)
                for name, problem in problems.items()
                for label, method, ahead in (("heavy ball", heavy_ball, False), ("Nesterov", nesterov, True))
            },
            sums(problems["quadratic"], varying, False),
            -jnp.diff(average),
        )

    found, varying, average = measure(key)
    for name, (velocity, total) in found.items():
        # a difference of iterates over the step: their rounding over the step
        yield equal(name, velocity, total, atol=1e-12 * float(jnp.abs(total).max()) / step)
    yield equal("weights of the moving average", average, 1 - momentum ** (k + 1), atol=1e-10, along="iteration")
    yield control("a step that shrinks", equal("heavy ball", *varying, atol=1e-9))


@claim(rows=("T02.13",))
def flow(key, *, finest: Size = 9):
    r"""The heavy ball discretises the motion of a ball with friction.

    On $\frac h2\theta^2$ the heavy ball with $\eta=bs^2$, $\rho=1-as$ follows the solution of
    $\ddot\theta+a\dot\theta+b\nabla f(\theta)=0$ from rest, with an error $O(s)$ at a fixed time, whether it swings or
    creeps. (T has no map between the parameters.) With a momentum that does not depend on $s$ it does not.
    """
    powers = np.arange(3, finest + 1)
    spacings, times = 2.0**-powers, jnp.arange(1.0, 6.0)
    places = (np.arange(1, 6) * 2 ** powers[:, None]).astype(int)

    @jax.jit
    def measure(key):
        curvature = jax.random.uniform(key, minval=1.0, maxval=2.0)
        problem = quadratic(curvature[None])

        def errors(friction, momentum=None):
            def one(spacing, places):
                step, rho = heavy_ball_of_flow(friction, 1.0, spacing)
                rho = rho if momentum is None else momentum
                path = minimize(problem, heavy_ball(step, rho), steps=int(5 * 2**finest)).theta[places, 0]
                return jnp.abs(path - damped_oscillator(1.0, curvature, friction, 1.0, times)).max()

            return jax.vmap(one)(jnp.asarray(spacings), jnp.asarray(places))

        return jax.vmap(errors)(jnp.array([0.8, 4.0])), errors(0.8, 0.5)

    (swings, creeps), fixed = measure(key)
    yield rate("error where the ball swings", spacings, swings, 1.0, tolerance=0.15, along="time step")
    yield rate("error where the ball creeps", spacings, creeps, 1.0, tolerance=0.15, along="time step")
    yield control("a momentum of 0.5 at all time steps", rate("error", spacings, fixed, 1.0, tolerance=0.15))


@claim(rows=("E03.13",))
def constant_gradient(key, *, steps: Count = 60, momentum: Probability = 0.9):
    r"""Under a constant gradient the heavy ball lengthens its step, up to a factor 1/(1 - β).

    If $\nabla h\equiv\delta$ and $\theta^{-1}=\theta^0$ then
    $\theta^{t+1}=\theta^t-\eta\bigl(\sum_{\tau=0}^t\beta^\tau\bigr)\delta$, and the effective step tends to
    $\frac\eta{1-\beta}$ for $\beta<1$.
    """
    lengths = _lengths(key, steps, momentum, 0.0)
    turning = _lengths(key, steps, momentum, 0.3)
    predicted = np.cumsum(momentum ** np.arange(steps))
    yield equal("effective step over η", lengths, predicted, along="iteration")
    yield equal("the last step, against the limit", lengths[-1], 1 / (1 - momentum), rtol=2 * momentum**steps)
    yield control("a gradient that changes", equal("effective step over η", turning, predicted))


@claim(rows=("E03.13",), erratum="The sum runs from 1 to t - 1 as printed; it must run from 0 to t.")
def printed_constant_gradient(key, *, steps: Count = 60, momentum: Probability = 0.9):
    r"""Under a constant gradient the effective step is the sum of the powers of β from 1 to t - 1.

    As printed: $\theta^{t+1}=\theta^t-\eta\bigl(\sum_{\tau=1}^{t-1}\beta^\tau\bigr)\delta$, which would not move at
    all in the first two steps, wherever $t$ begins to count. Corrected: $\sum_{\tau=0}^t$.
    """
    powers, lengths = momentum ** np.arange(steps), _lengths(key, steps, momentum, 0.0)
    yield equal("effective step over η, from 0 to t", lengths, np.cumsum(powers), along="iteration")
    short = np.concatenate([[0, 0], np.cumsum(powers[1:])])[:steps]
    yield printed(equal("effective step over η, from 1 to t - 1", lengths, short, along="iteration"))


@partial(jax.jit, static_argnames="steps")
def _drift(slope, bend, momentum, steps):
    problem = Problem(lambda theta, slope, bend: slope @ theta + bend / 2 * theta @ theta, (slope, bend), 0 * slope)
    return minimize(problem, heavy_ball(0.1, momentum), steps=steps).theta


def _lengths(key, steps, momentum, bend):
    """How far every step goes along the gradient at the start, over the step size and the gradient."""
    slope = jax.random.normal(key, (3,))
    path = _drift(slope, jnp.asarray(bend), momentum, steps)
    return -jnp.diff(path, axis=0) @ slope / (0.1 * slope @ slope)


@claim(rows=("E03.12",))
def stability(key, *, steps: Count = 400):
    r"""On a quadratic the heavy ball converges exactly for β < 1 and steps below 2(1 + β)/λ.

    On $\frac\lambda2\theta^2$ the pair $(\theta^t,\theta^{t-1})$ is multiplied by
    $\begin{pmatrix}1+\beta-\eta\lambda&-\beta\\1&0\end{pmatrix}$ in every step, whose spectral radius is below 1 if
    and only if $0<\eta\lambda<2(1+\beta)$ and $\beta<1$. (E has $\beta\in[0,1]$: at $\beta=1$, without friction, the
    determinant of the matrix is 1 and the iterates swing for ever.)
    """
    betas = jnp.array([0.0, 0.5, 0.9])
    share = jnp.array([0.01, 0.5, 0.99, 1.01])

    @jax.jit
    def measure(key):
        curvature = jax.random.uniform(key, minval=0.5, maxval=2.0)

        def run(beta, share):
            step = share * 2 * (1 + beta) / curvature
            path = minimize(quadratic(curvature[None]), heavy_ball(step, beta), steps=steps).theta[:, 0]
            matrix = heavy_ball_matrix(step, beta, curvature)
            power = jnp.linalg.matrix_power(matrix, 40)
            return jnp.abs(path[-1]), path[40], (power @ jnp.ones(2))[0]

        ends = jax.vmap(lambda b: jax.vmap(lambda s: run(b, s))(share))(betas)
        steps_, beta = jnp.meshgrid(jnp.linspace(0.03, 4.5, 150), jnp.linspace(0.0, 0.95, 20))
        free = jax.random.uniform(jax.random.fold_in(key, 1), (8,), minval=0.1, maxval=3.5)
        swing = jax.vmap(lambda s: minimize(quadratic(jnp.ones(1)), heavy_ball(s, 1.0), steps=steps).theta)(free)
        swing = jnp.abs(swing[:, -100:, 0]).max(1)
        return ends, heavy_ball_matrix(steps_, beta, 1.0), steps_ / (2 * (1 + beta)), swing

    (final, at_40, predicted), matrices, relative, swing = measure(key)
    yield equal("the 40th iterate is the 40th power of the matrix", at_40, predicted, rtol=1e-7)
    radius, relative = np.abs(np.linalg.eigvals(np.asarray(matrices))).max(-1), np.asarray(relative)
    clear = np.abs(relative - 1) > 1e-6  # at the limit itself rounding decides
    yield equal("spectral radius below 1, as 0 and 1, over 3000 pairs", (radius < 1)[clear], (relative < 1)[clear])
    # the slowest is plain gradient descent, with the factor 0.98 at 1 % and at 99 % of the limit, 1.02 at 101 %
    small, large = 4 * 0.98**steps, 1.02**steps / 4
    yield at_most("final distance, steps up to 99 % of the limit", final[:, :3], small)
    yield at_least("final distance, at 101 % of the limit", final[:, 3], large)
    yield control("a step 1 % above the limit", at_most("final distance", final[:, 3], small))
    yield control("no friction, β = 1", at_most("largest distance in the last 100 steps", swing, small))
