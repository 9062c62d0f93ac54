"""The limit of wide shallow networks: SGD and gradient flow become a linear equation (M, Theorems 19.3 and 19.4)."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.dynamics import (
    draw_shallow,
    limit_kernel,
    limit_parts,
    shallow_flow,
    shallow_sgd,
    shallow_velocity,
    start_covariance,
    tangent_kernel,
)
from corollary.evidence import Count, at_most, claim, control, equal, estimate, printed, rate
from corollary.kernels import flow_predictions, trained_law

# multiples of 8, so that the times of observation are whole steps
WIDTHS = np.array([16.0, 24, 32, 48, 64, 96, 128])
ETA, POINTS, PARTS = 2.0, 3, 8


def _data(key):
    """Points of length 1.5 and labels of mean square 1.5, so that no seed has nothing to learn."""
    x_key, y_key = jax.random.split(key)
    x, y = jax.random.normal(x_key, (POINTS, 3)), jax.random.normal(y_key, (POINTS,))
    return 1.5 * x / jnp.linalg.norm(x, axis=1, keepdims=True), y * jnp.sqrt(1.5 / jnp.mean(y**2))


def _limit(k, y, starts, times):
    """The limit path from each of `starts` (..., n): (..., times, n)."""
    flat = starts.reshape(-1, y.shape[0]).T
    labels = jnp.broadcast_to(y[:, None], flat.shape)
    path = flow_predictions(k, labels, ETA * jnp.asarray(times), start=flat, reduction="mean").train
    return jnp.transpose(path, (2, 0, 1)).reshape(*starts.shape[:-1], len(times), y.shape[0])


def _rms(a, axis):
    return jnp.sqrt(jnp.mean(a**2, axis=axis))


@claim(rows=("M19.16", "M19.18"))
def limit_of_sgd(key, *, repetitions: Count = 400):
    r"""SGD of a wide shallow network follows a linear equation, with an error of order N to the power -1/2.

    $\sigma\in C_b^2$, $(C_0^n,W_0^n)$ independent from $\mu_0$ with $\mathbb E[c\,\sigma(w\cdot x)]=0$, $c$ bounded,
    $\gamma=\frac12$, examples drawn uniformly from $M$ pairs $(x_m,y_m)$, rate $\eta/N$. Then $h_t=m_{\lfloor
    Nt\rfloor}$ converges in law on $[0,T]$ to $$\dot h_t=A(\hat Y-h_t),\qquad h_0=\mathcal
    G\sim\mathcal N(0,\Sigma),\qquad A=\tfrac\eta MK(\mu_0),$$ while $\mu_t=\mu_0$: at time $T$ the mean is $(I-e^{-
    AT})\hat Y$ and the covariance $e^{-AT}\Sigma e^{-AT}$. (M's (19.4) lacks the integral over time.) Started from
    the realised $h_0$, the error is of the order $N^{-1/2}$, also the largest over $t\le T$. It does
    not fall if the examples are not drawn alike.
    """

    @jax.jit
    def measure(key, shares):
        data_key, run_key = jax.random.split(key)
        x, y = _data(data_key)

        def run(key, width):
            net_key, order_key = jax.random.split(key)
            net = draw_shallow(128, 3, key=net_key, width=width)
            order = jax.random.choice(order_key, POINTS, (128,), p=shares)
            steps = jnp.round(width * jnp.arange(PARTS + 1) / PARTS).astype(int)
            return shallow_sgd(net, x, y, ETA, order, steps)[0]

        keys = jax.random.split(run_key, (len(WIDTHS), repetitions))
        return x, y, jax.lax.map(lambda a: jax.vmap(lambda k: run(k, a[1]))(a[0]), (keys, jnp.asarray(WIDTHS)))

    x, y, paths = measure(key, jnp.ones(POINTS) / POINTS)
    times = np.arange(PARTS + 1) / PARTS
    outer, inner = limit_parts(x)
    away = paths - _limit(outer + inner, y, paths[:, :, 0], times)
    # 400 runs of three points give each root mean square to about 3 %, hence the slope over a factor 8 of widths to
    # about 0.02 and its interval (five degrees of freedom) to 0.07; the next order, 1/N, is worth as much again
    fits = {"tolerance": 0.15, "along": "width"}
    yield rate("error at the end", WIDTHS, _rms(away[:, :, -1], (1, 2)), -0.5, **fits)
    largest = jnp.max(jnp.abs(away), (2, 3))
    yield rate("largest error on the way", WIDTHS, _rms(largest, 1), -0.5, **fits)
    law = trained_law(outer + inner, start_covariance(x), y, ETA, reduction="mean")
    outer_only = trained_law(outer, start_covariance(x), y, ETA, reduction="mean").mean
    # what the widths 64 and 128 say together has no error of order 1/N
    learned = paths[:, :, -1] @ y / (y @ y)
    apart = jnp.sum((paths[:, :, -1] - law.mean) ** 2, -1)
    yield estimate(
        "share of the labels learned",
        2 * learned[-1] - learned[-3],
        law.mean @ y / (y @ y),
        wrong=outer_only @ y / (y @ y),
    )
    yield estimate(
        "spread of the trained outputs",
        2 * apart[-1] - apart[-3],
        jnp.trace(law.covariance),
        wrong=jnp.trace(start_covariance(x)),
    )
    _, _, paths = measure(key, jnp.array([0.8, 0.1, 0.1]))
    away = paths - _limit(outer + inner, y, paths[:, :, 0], times)
    yield control(
        "examples drawn uniformly: here the first most often",
        rate("error at the end", WIDTHS, _rms(away[:, :, -1], (1, 2)), -0.5, **fits),
    )


@claim(rows=("M19.14", "M19.36"))
def units_stand_still(key, *, repetitions: Count = 200):
    r"""Under gradient flow the measure of the units moves by N to the power -1/2, and the flow becomes linear.

    For smooth bounded $g$, along $\dot\theta=-\eta\nabla\Lambda$, $\frac d{dt}\langle g,\mu_t\rangle=\frac\eta{\sqrt
    N}\frac1M\sum_m(y_m-m(x_m))\langle\partial_cg\,\sigma(w\cdot x_m)+c\,\sigma'(w\cdot x_m)\nabla_wg\cdot x_m,
    \mu_t\rangle$. So $\langle g,\mu_t\rangle-\langle g,\mu_0\rangle$ is of the order $N^{-1/2}$, as every unit's
    displacement; the kernel moves no more than that, and less where, as here, its first-order change has mean zero
    ($\sigma$ odd, $c$ symmetric). From the realised start the outputs follow the linear equation with an error of order
    $N^{-1/2}$ with the limit kernel, and less with the kernel of this network at its start. For $\gamma=1$ nothing
    freezes.
    """
    n = len(WIDTHS)

    def g(c, w):
        return jnp.sin(c) * jnp.tanh(w[0])

    @jax.jit
    def measure(key):
        data_key, run_key = jax.random.split(key)
        x, y = _data(data_key)

        def run(key, gamma, width):
            net = draw_shallow(128, 3, key=key, gamma=gamma, width=width)
            (path,), end = shallow_flow(net, x, y, ETA, jnp.ones(1), substeps=10)
            k0, present = tangent_kernel(net, x), jnp.arange(128) < width
            moved = jnp.max(jnp.where(present, jnp.abs(end.outer - net.outer), 0))
            drift = jnp.linalg.norm(tangent_kernel(end, x) - k0)
            # the speed of <g, mu> by autodiff along the velocity, and by the formula
            velocity = shallow_velocity(net, x, y, ETA)

            def paired(outer, inner):
                return jnp.where(present, jax.vmap(g)(outer, inner), 0).sum() / width

            _, speed = jax.jvp(paired, (net.outer, net.inner), velocity)

            def push(c, w):
                by_c, by_w = jax.grad(g, (0, 1))(c, w)
                z = x @ w
                slope = 2 / jnp.sqrt(jnp.pi) * jnp.exp(-(z**2))
                return by_c * jax.lax.erf(z) + c * slope * (x @ by_w)

            formula = ETA * width ** (gamma - 1) * jnp.mean((y - net(x)) * net.measure.pair(push))
            start = net(x)
            frozen = flow_predictions(k0, y, jnp.array([ETA]), start=start, reduction="mean").train[0]
            return start, path, path - frozen, end.measure.pair(g) - net.measure.pair(g), moved, drift, (speed, formula)

        gammas, widths = jnp.repeat(jnp.array([0.5, 1.0]), n), jnp.concatenate([WIDTHS, WIDTHS])
        keys = jax.random.split(run_key, (2 * n, repetitions))
        return x, y, jax.lax.map(lambda a: jax.vmap(lambda k: run(k, a[1], a[2]))(a[0]), (keys, gammas, widths))

    x, y, (start, end, frozen, paired, moved, drift, speeds) = measure(key)
    yield equal("speed of a pairing", *speeds, rtol=1e-9, atol=1e-11)
    # 200 runs give each root mean square to 5 %, the slope to 0.03 and its interval to 0.1; the next orders of 1/N
    # are worth as much again
    fits = {"tolerance": 0.2, "along": "width"}
    yield rate("change of a pairing", WIDTHS, _rms(paired[:n], 1), -0.5, **fits)
    yield rate("largest displacement of an outer weight", WIDTHS, _rms(moved[:n], 1), -0.5, **fits)
    yield rate("change of the kernel", WIDTHS, _rms(drift[:n], 1), -0.5, side="at most", **fits)
    away = end - _limit(limit_kernel(x), y, start, [1.0])[..., 0, :]
    yield rate("distance from the limit equation", WIDTHS, _rms(away[:n], (1, 2)), -0.5, **fits)
    yield rate("distance from the frozen kernel", WIDTHS, _rms(frozen[:n], (1, 2)), -0.5, side="at most", **fits)
    # the network whose kernel is frozen is the nearer one, at every width
    yield at_most("frozen kernel against limit kernel", _rms(frozen[:n], (1, 2)), _rms(away[:n], (1, 2)), x=WIDTHS)
    for name, values in {"largest displacement of an outer weight": moved, "change of the kernel": drift}.items():
        yield control("γ = 1/2: here 1", rate(name, WIDTHS, _rms(values[n:], 1), -0.5, side="at most", **fits))


@claim(rows=("M19.15", "M19.19", "M19.36"))
def limit_equation(key):
    r"""The limit equation descends a quadratic to zero training error, at the rate of its smallest eigenvalue.

    $\dot h=\frac\eta MK(\hat Y-h)$ has the solution $h_t=\hat Y+e^{-\frac\eta MKt}(h_0-\hat Y)$, is the gradient flow
    $\dot h=-\frac\eta M\nabla J$ of $J(h)=\frac12(\hat Y-h)^\top K(\hat Y-h)$, whose Hessian is $K$ everywhere, and if
    $A=\frac\eta MK$ is positive definite, $\|h_t-\hat Y\|\le e^{-\lambda_{\min}(A)t}\|h_0-\hat Y\|$, with equality for
    a start along the last eigenvector. If $A$ is singular, as for $x_2=-x_1$ and odd $\sigma$, the residual keeps its
    part in the kernel of $A$ forever.
    """
    times = np.linspace(0, 40, 81)

    @jax.jit
    def measure(key):
        data_key, start_key = jax.random.split(key)
        # axes and a diagonal in a random position: the kernel has the same eigenvalues for every key
        frame = jax.random.orthogonal(data_key, 3)
        x = 1.5 * jnp.concatenate([frame, jnp.sum(frame, 0, keepdims=True) / jnp.sqrt(3)])
        opposite = x.at[1].set(-x[0])
        y, h0 = jax.random.normal(start_key, (2, 4))

        def both(x, y):
            k = limit_kernel(x)
            values, vectors = jnp.linalg.eigh(k)
            starts = jnp.stack([h0, y + vectors[:, 0]])
            return k, values, _limit(k, y, starts, times) - y

        found = jax.lax.map(lambda x: both(x, y), jnp.stack([x, opposite]))

        def objective(h):
            return (y - h) @ found[0][0] @ (y - h) / 2

        # small steps of descent on J: an integrator that knows no matrix exponential; 4000 Heun steps to t = 4
        def heun(h, _):
            step = 1e-3 * ETA / 4
            first = jax.grad(objective)(h)
            second = jax.grad(objective)(h - step * first)
            return h - step * (first + second) / 2, None

        integrated, _ = jax.lax.scan(heun, h0, None, length=4000)
        return found, integrated - y, jax.hessian(objective)(h0)

    (k, values, paths), integrated, hessian = measure(key)
    lowest = ETA / 4 * values[:, 0]
    norms = jnp.linalg.norm(paths, axis=-1)
    # Heun's global error: h² times a third derivative, at most (rate of the fastest mode)³, over the 4 units of time
    fastest = ETA / 4 * float(values[0, -1])
    miss = 1e-6 * 4 * fastest**3 * float(norms[0, 0, 0]) / 6 + 1e-12
    yield equal("small steps down the quadratic, at time 4", integrated, paths[0, 0, 8], rtol=0, atol=miss)
    yield equal("Hessian of the quadratic", hessian, k[0], rtol=1e-11)
    bound = jnp.exp(-lowest[0] * times) * norms[0, 0, 0]
    yield at_most("distance from the labels", norms[0, 0], bound, atol=1e-12, x=times, along="time")
    slow = jnp.exp(-lowest[0] * times)
    yield equal("along the last eigenvector", norms[0, 1], slow, rtol=1e-9, atol=1e-12, x=times, along="time")
    # e1 + e2 is in the kernel of A: outputs at opposite points are opposite, whatever the labels are
    stays = (paths[1, 0, :, 0] + paths[1, 0, :, 1]) / jnp.sqrt(2)
    yield equal("opposite points: what stays", stays, stays[0], rtol=1e-9, atol=1e-10, x=times, along="time")
    yield control(
        "A is positive definite: here two points are opposite",
        at_most("distance from the labels", norms[1, 1], slow, x=times, along="time"),
    )


def _solution(key):
    """K, labels and the solution of the limit equation at 401 times up to 2, by Runge and Kutta's method.

    With steps of 1/200 and eigenvalues of ηK/M below 5 the error is below (5/200)⁴/120 of the residual per unit of
    time.
    """

    @jax.jit
    def measure(key):
        data_key, start_key = jax.random.split(key)
        x, y = _data(data_key)
        k, covariance = limit_kernel(x), start_covariance(x)
        start = jnp.linalg.cholesky(covariance) @ jax.random.normal(start_key, (POINTS,))

        def velocity(h):
            return ETA / POINTS * k @ (y - h)

        def step(h, _):
            a = velocity(h)
            b = velocity(h + a / 400)
            c = velocity(h + b / 400)
            d = velocity(h + c / 200)
            h = h + (a + 2 * b + 2 * c + d) / 1200
            return h, h

        return k, y, jnp.concatenate([start[None], jax.lax.scan(step, start, None, length=400)[1]])

    return jax.tree.map(np.asarray, measure(key))


@claim(rows=("M19.15",), erratum="The exponent lacks the factor eta / M that the equation before it has.")
def printed_exponential(key):
    r"""The closed form of the limit equation without the factor eta / M.

    As printed: the solution of $d\mathbf m_t=\frac\eta MA(\hat Y-\mathbf m_t)dt$, $\mathbf m_0=\mathcal G$, is
    $\mathbf m_t=\hat Y+(\mathcal G-\hat Y)e^{-At}$ (M, section 19.3). It is $\hat Y+e^{-\frac\eta MAt}(\mathcal G-\hat
    Y)$.
    """
    a, y, path = _solution(key)
    at = np.array([100, 200, 400])

    def closed(a):
        return [y + np.asarray(jax.scipy.linalg.expm(-t * a)) @ (path[0] - y) for t in at / 200]

    yield printed(equal("solution at the times 1/2, 1 and 2", path[at], closed(a), rtol=0, atol=1e-3))
    yield equal("with the factor in the exponent", path[at], closed(ETA / POINTS * a), rtol=0, atol=1e-6)


@claim(rows=("M19.18",), erratum="The average over the data is taken twice: A has the factor 1/M, and so has pi.")
def printed_average(key):
    r"""The integral equation of the limit, with the average over the data taken twice.

    As printed, after (19.5): "we can write" $h_t(x)=\mathcal G(x)+\int_0^tA(x,x')(y-h_s(x'))\,\pi(dx',dy)\,ds$ with
    $A=\frac\eta MK$ and $\pi=\frac1M\sum_m\delta_{(x_m,y_m)}$; "then (19.5) becomes" $dh_t=A(\hat Y-h_t)dt$, whose
    solution moves $M$ times as far. The integral needs the sum over the data in the place of their mean.
    """
    k, y, path = _solution(key)
    from scipy.integrate import simpson

    pulls = ETA / POINTS * k[:, :, None] * (y - path).T  # points x, points x', times
    moved, integral = path[-1] - path[0], simpson(pulls, dx=1 / 200)
    yield printed(equal("movement by time 2, mean over the data", moved, integral.mean(1), rtol=0, atol=1e-3))
    yield equal("movement by time 2, sum over the data", moved, integral.sum(1), rtol=0, atol=1e-6)
