"""Perturbed gradient descent leaves strict saddles, quickly and in any dimension (T chapter 7)."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import (
    Count,
    Positive,
    Probability,
    Range,
    Size,
    at_least,
    at_most,
    claim,
    control,
    equal,
    estimate,
    frequency_at_most,
    rate,
)
from corollary.landscape import (
    cosines_hessian_lipschitz,
    cubic_saddle,
    escape_parameters,
    escape_times,
    find_second_order_point,
    gaussian_perturbed_descent,
    hessian_lipschitz_lower_bound,
    is_second_order_stationary,
    perturbed_descent,
    rank_one_constants,
    uniform_ball,
)
from corollary.optimization import Problem, minimize, random_cosines


def _hills(signs):
    """The sum of s cos(x) from the origin: 1-gradient and 1-Hessian Lipschitz, a strict saddle where a sign is +1."""
    return Problem(
        lambda x, signs: signs @ jnp.cos(x),
        (signs,),
        jnp.zeros_like(signs),
        L=jnp.ones(()),
        minimum=-1.0 * signs.size + 0 * signs[0],
    )


@claim(rows=("T07.01", "T07.02", "T07.03"))
def scale_invariance(key, *, points: Size = 400, dim: Size = 3):
    r"""Being an approximate second-order stationary point does not depend on the units.

    For $g(x)=af(bx)$ with $a,b>0$ the constants are $\rho_g=ab^3\rho$ and $\epsilon_g=ab\,\epsilon$, so that
    $\sqrt{\rho_g\epsilon_g}=ab^2\sqrt{\rho\epsilon}$, and $x$ is an $\epsilon$-second-order stationary point of $f$
    exactly if $x/b$ is an $\epsilon_g$-one of $g$. For $f=\sum_jc_j\cos(a_j\cdot x+b_j)$ the constant
    $\rho\le\sum_j|c_j|\|a_j\|^3$ is certified, and attained by a single cosine.
    """

    @jax.jit
    def measure(key):
        f_key, x_key, scale_key, y_key = jax.random.split(key, 4)
        f = random_cosines(dim, key=f_key, terms=4, frequency=2.0)
        a, b = jnp.exp(jax.random.normal(scale_key, (2, points)))
        x = 3 * jax.random.normal(x_key, (points, dim))
        rho = cosines_hessian_lipschitz(f.data[0], f.data[1])
        # accuracies for which both conditions decide somewhere
        eps = jnp.quantile(jnp.linalg.norm(jax.vmap(f.gradient)(x), axis=1), jnp.linspace(0.2, 0.9, points))

        def one(args):  # one compiled body for all three: a = b = 1 is f itself
            x, a, b, eps, rho = args
            return is_second_order_stationary(lambda z: a * f(b * z), x, eps, rho)

        c, r = jnp.ones(points), jnp.full(points, rho / 100)
        cases = [
            (x, c, c, eps, r),
            (x / b[:, None], a, b, a * b * eps, a * b**3 * r),
            (x / b[:, None], a, b, eps, r),
        ]
        flags = jax.lax.map(one, jax.tree.map(lambda *v: jnp.concatenate(v), *cases)).reshape(3, points)
        y = x + 0.01 * jax.random.normal(y_key, x.shape)
        single = hessian_lipschitz_lower_bound(
            lambda w: jnp.cos(2 * w[0]), jnp.array([[jnp.pi / 4 + 1e-4]]), jnp.array([[jnp.pi / 4 - 1e-4]])
        )
        return flags, hessian_lipschitz_lower_bound(f, x, y), rho, single

    (plain, scaled, unscaled), sampled, rho, single = measure(key)
    yield equal("verdict on af(bx) against the verdict on f", scaled.astype(float), plain.astype(float))
    yield at_least("share of points that are stationary", jnp.mean(plain.astype(float)), 0.02)
    yield at_most("sampled Hessian differences", sampled, rho)
    # the difference quotient of 4 cos over 4e-4 about its steepest point is short of 8 by a sixth of its square
    yield equal("one cosine attains its constant", single, 8.0, rtol=1e-7)
    yield control(
        "ε and ρ are scaled with f: here they are not",
        equal("verdict on af(bx) against the verdict on f", unscaled.astype(float), plain.astype(float)),
    )


@claim(rows=("T07.04",))
def gaussian_noise(key, *, runs: Size = 100, dim: Annotated[int, Range(2, 30)] = 6, steps: Count = 400):
    r"""Gradient descent with Gaussian noise leaves the saddles of a matrix factorisation; without, it stays for ever.

    $x_{t+1}=x_t-\eta(\nabla f(x_t)+\xi_t)$ with $\xi_t\sim N(0,\frac{r^2}dI)$, $\mathbb E\|\xi_t\|^2=r^2$. For
    $f=\frac14\|M-xx^\top\|_F^2$ both $0$ and $\sqrt{\lambda_2}v_2$ are strict saddles. Every run ends at
    $\pm\sqrt{\lambda_1}v_1$, as near as the noise allows: near a minimum with $\eta\lambda_{\max}\le1$ the mean excess
    is at most $\frac12\eta r^2$.
    """
    r = 1e-3
    spectrum = jnp.concatenate([jnp.array([2.0, 1.0]), jnp.linspace(0.5, 0.1, dim - 2)])

    @jax.jit
    def measure(key):
        ell, _ = rank_one_constants(jnp.diag(spectrum), 1.5)

        def value(x):
            return jnp.sum((jnp.diag(spectrum) - jnp.outer(x, x)) ** 2) / 4

        problem = Problem(value, (), jnp.zeros(dim))
        saddles = jnp.stack([jnp.zeros(dim), jnp.eye(dim)[1]])
        still = gaussian_perturbed_descent(1 / ell, 0.0, key=key)

        def one(key, start):
            path = minimize(problem, gaussian_perturbed_descent(1 / ell, r, key=key), steps=steps, start=start)
            return path.value[-1], jnp.sum((path.theta[1] - path.theta[0]) ** 2)

        ends, first = jax.vmap(lambda s: jax.vmap(lambda k: one(k, s))(jax.random.split(key, runs)))(saddles)
        stay = jax.vmap(lambda s: minimize(problem, still, steps=steps, start=s))(saddles)
        return ends, first * ell**2, stay.value[:, -1], jnp.abs(stay.theta - saddles[:, None]).max(), 1 / ell

    ends, noise, stay, moved, eta = measure(key)
    lowest = jnp.sum(spectrum[1:] ** 2) / 4
    # twenty times the mean of a weighted sum of squares: a single normal exceeds that with probability 8e-6
    yield at_most("excess at the end, from both saddles", ends - lowest, 20 * eta * r**2 / 2)
    yield estimate("mean square of the noise", noise[0], r**2, wrong=2 * r**2)
    yield equal("without noise: distance from the saddles", moved, 0.0, atol=0.0)
    yield control("steps with noise: here without", at_most("excess at the end", stay - lowest, 20 * eta * r**2 / 2))


@claim(rows=("T07.05", "T07.06"))
def finds_second_order_point(
    key,
    *,
    runs: Size = 600,
    dim: Annotated[int, Range(2, 20)] = 4,
    eps: Annotated[float, Range(0.01, 0.5)] = 0.1,
    delta: Probability = 0.15,
    steps: Count = 100,
):
    r"""Perturbed gradient descent visits a second-order stationary point, with high probability.

    Let $f$ be $\ell$-gradient and $\rho$-Hessian Lipschitz, $\epsilon\le\ell^2/\rho$, and $\eta$, $r$, $\mathscr T$ as
    in `escape_parameters`. Within $(2+100\iota^4)\ell(f(x_0)-f^*)/\epsilon^2+\mathscr T$ steps at least one iterate
    is an $\epsilon$-second-order stationary point, with probability at least $1-\delta$. Measured on
    $\sum_is_i\cos x_i$, $s_i=\pm1$, started at a strict saddle (where $\ell=\rho=1$), and in one direction of curvature
    $-1.5\sqrt{\rho\epsilon}$ over four decades of $\epsilon$: the steps that it takes grow like
    $\epsilon^{-1/2}\iota$, which is $\Delta/\epsilon^2$ up to the logarithm, since $\Delta\propto\epsilon^{3/2}$.
    """
    accuracies = 10.0 ** -jnp.linspace(1, 4, 7)

    @jax.jit
    def measure(key):
        def one(key):
            sign_key, run_key = jax.random.split(key)
            # at least one direction of escape
            signs = jnp.where(jax.random.bernoulli(sign_key, shape=(dim,)), 1.0, -1.0).at[0].set(1.0)
            found = find_second_order_point(_hills(signs), 1.0, eps, delta, steps=steps, key=run_key)
            return found.first, found.parameters.budget

        def still(signs):
            p = escape_parameters(1.0, 1.0, eps, delta, dim, 2.0 * dim)._replace(radius=jnp.zeros(()))
            return jnp.abs(minimize(_hills(signs), perturbed_descent(p, key=key), steps=steps).theta).max()

        def scaled(eps):
            gamma = 1.5 * jnp.sqrt(eps)
            problem = cubic_saddle(dim, gamma)
            p = escape_parameters(1.0, 1.0, eps, delta, dim, -problem.minimum)
            starts = jax.vmap(lambda k: uniform_ball(dim, p.step * p.radius, key=k))(jax.random.split(key, 32))
            # a point of the right curvature and gradient: gamma - rho |x| <= sqrt(rho eps), and the slope falls from
            # there on and is small when |x| is near 2 gamma / rho
            near = 0.9 * 2 * gamma
            return jnp.mean(escape_times(problem, starts, p.step, steps=8000, reach=near)), p.interval

        return jax.vmap(one)(jax.random.split(key, runs)), still(jnp.ones(dim)), jax.vmap(scaled)(accuracies)

    (first, budget), moved, (times, interval) = measure(key)
    yield frequency_at_most("runs without a second-order stationary point", first > steps, delta)
    yield at_most("step of the first one", first, budget)
    yield rate("steps to leave, over the accuracy", accuracies, times, -0.5, tolerance=0.1, along="ε")
    yield at_most("steps to leave, against the interval of the theorem", times, interval, x=accuracies, along="ε")
    yield control("perturbed descent: here without perturbation", at_least("distance from the saddle", moved, eps))


@claim(rows=("T07.06",))
def logarithmic_in_the_dimension(
    key,
    *,
    runs: Size = 64,
    gamma: Annotated[float, Range(0.05, 0.5)] = 0.1,
    largest: Annotated[int, Range(1024, 100_000)] = 4096,
):
    r"""With one direction of escape among many, the time to escape grows with half the logarithm of the dimension.

    For $f=-\frac\gamma2x_1^2+\frac14x_1^4+\frac12\sum_{i\ge2}x_i^2$, $\eta=1$ and a perturbation uniform on a ball of
    fixed radius, $|x_1(0)|\propto d^{-1/2}$ and grows by $1+\eta\gamma$ a step: the escape takes
    $\frac{\ln d}{2\ln(1+\eta\gamma)}$ steps, plus a constant. The theorem's $\tilde O$ hides no power of $d$.
    """
    dims = np.geomspace(16, largest, 5).astype(int)
    steps = int(25 / np.log1p(gamma))

    @jax.jit
    def measure(key):
        z = jax.random.normal(key, (runs, largest + 2))  # the same draws in every dimension

        def starts(d):
            inside = jnp.where(jnp.arange(largest + 2) < d + 2, z, 0.0)
            ball = inside / jnp.linalg.norm(inside, axis=1, keepdims=True)
            return 1e-3 * jnp.where(jnp.arange(largest) < d, ball[:, :largest], 0.0)

        def f(x):
            return -gamma / 2 * x[0] ** 2 + x[0] ** 4 / 4 + jnp.sum(x[1:] ** 2) / 2

        def mean(starts):
            return jnp.mean(escape_times(f, starts, 1.0, steps=steps, reach=0.5 * gamma**0.5))

        still = escape_times(f, jnp.zeros((1, largest)), 1.0, steps=steps, reach=0.5 * gamma**0.5)
        return jax.lax.map(lambda d: mean(starts(d)), jnp.asarray(dims)), still

    times, still = measure(key)
    slope = 1 / (2 * np.log1p(gamma))
    # common draws leave only the rounding of times to whole steps and the fluctuation of a norm, 1/sqrt(2d)
    yield rate("exponential of the mean escape time", dims, jnp.exp(times), slope, tolerance=0.1 * slope, along="d")
    yield control("perturbed descent: here without perturbation", at_most("escape time", still, steps))


@claim(rows=("B06.12",))
def noise_in_a_linear_network(key, *, runs: Size = 32, eta: Positive = 0.05):
    r"""Noise of size s leaves a saddle of a linear network after log(1/s) over the curvature.

    At the critical point of $\frac12\|W_2W_1-M\|_F^2$, $M=\mathrm{diag}(4,1,\frac14)$, that fits the last two singular
    values, $\lambda_{\min}=\frac14-4$. Gradient descent stays. With noise of standard deviation $s$ on every
    coordinate of the gradient it escapes in $\frac{\ln(1/s)}{\ln(1+\eta|\lambda_{\min}|)}$ steps plus a constant, and
    ends at the global minimum. The degenerate saddle $w=0$ of a network of three layers is left much more slowly.
    """
    steps = 600
    target = jnp.diag(jnp.array([4.0, 1.0, 0.25]))
    saddle = jnp.stack([jnp.eye(3)[1], 0.5 * jnp.eye(3)[2]])  # W1, and W2 its transpose
    gamma = 4 - 0.25
    sizes = 10.0 ** -jnp.arange(2, 9)

    def value(theta):
        return jnp.sum((theta[6:].reshape(3, 2) @ theta[:6].reshape(2, 3) - target) ** 2) / 2

    @jax.jit
    def measure(keys):
        start = jnp.concatenate([saddle.ravel(), saddle.T.ravel()])
        problem = Problem(value, (), start)
        deep = Problem(lambda w: (w[0] * w[1] * w[2] - 1) ** 2 / 2, (), jnp.zeros(3))

        def escape(problem, s, key):
            method = gaussian_perturbed_descent(eta, s * jnp.sqrt(problem.start.size), key=key)
            path = minimize(problem, method, steps=steps)
            low = path.value < 0.9 * path.value[0]
            return jnp.where(low.any(), jnp.argmax(low), steps), path.value[-1]

        many = jax.vmap(lambda s: jax.vmap(lambda k: escape(problem, s, k))(keys))(sizes)
        slow = jax.vmap(lambda s: jax.vmap(lambda k: escape(deep, s, k)[0])(keys))(sizes)
        still = minimize(problem, gaussian_perturbed_descent(eta, 0.0, key=keys[0]), steps=1000)
        least = jnp.linalg.eigvalsh(problem.hessian(start))[0]
        return many, slow.mean(1), jnp.abs(still.theta - start).max(), least

    (times, ends), slow, moved, least = measure(jax.random.split(key, runs))
    slope = 1 / np.log1p(eta * gamma)
    yield equal("least eigenvalue at the saddle", least, -gamma)
    yield equal("gradient descent: distance from the saddle", moved, 0.0, atol=0.0)
    yield rate(
        "exponential of the mean escape time",
        1 / sizes,
        jnp.exp(times.mean(1)),
        slope,
        tolerance=0.1 * slope,
        along="1/s",
    )
    # rank two can fit all but the last singular value
    yield equal("value at the end", ends[2:], 0.25**2 / 2, rtol=1e-4)
    yield control(
        "a saddle with negative curvature: here a degenerate one",
        rate("exponential of the mean escape time", 1 / sizes, jnp.exp(slow), slope, tolerance=0.1 * slope),
    )
