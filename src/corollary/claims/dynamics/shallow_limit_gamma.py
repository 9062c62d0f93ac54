"""Networks with a factor N to the power of minus gamma in front: one limit for all gamma below 1 (M, Exercise 19.3)."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.dynamics import draw_shallow, limit_kernel, shallow_sgd, start_covariance
from corollary.evidence import Count, claim, control, estimate, printed, rate
from corollary.kernels import flow_predictions

WIDTHS = np.array([16.0, 24, 32, 48, 64, 96, 128])
ETA = 2.0


@claim(rows=("M19.35",))
def one_limit(key, *, repetitions: Count = 200):
    r"""The limit equation is the same for every scaling between the kernel's and the mean field's; the start is not.

    $m(x)=N^{-\gamma}\sum_nC^n\sigma(W^n\cdot x)$ with SGD of rate $\eta N^{-2(1-\gamma)}$, for $\gamma\in[\frac12,1)$:
    a step moves the outputs by $\frac\eta N(y-m(x'))K(\cdot,x')$ and a smaller rest, and $h_t=m_{\lfloor Nt\rfloor}$
    converges to the solution of $\dot h=\frac\eta MK(\hat Y-h)$, with $K$ as for $\gamma=\frac12$; but $\mathbb
    E[m_0(x)^2]=N^{1-2\gamma}\Sigma(x,x)$, so that $h_0=0$ for $\gamma>\frac12$. From the realised start the error is of
    the order $N^{-1/2}$, for symmetric $C$ and odd $\sigma$, as long as the movement of the kernel, $N^{-2(1-\gamma)}$,
    is not more. With the rate $\eta/N$ instead, less and less is learned when $\gamma>\frac12$.
    """
    # the last is the rate η/N in the place of η N^(-2(1-γ)), at γ = 0.7
    cases = np.array([0.6, 0.7, 1.0, 0.7])

    @jax.jit
    def measure(key):
        x_key, y_key, run_key = jax.random.split(key, 3)
        x = 1.5 * jax.random.orthogonal(x_key, 3)
        y = jnp.sqrt(1.5) * jax.random.rademacher(y_key, (3,), x.dtype)

        def run(key, gamma, slower, width):
            net_key, order_key = jax.random.split(key)
            net = draw_shallow(128, 3, key=net_key, gamma=gamma, width=width)
            order = jax.random.randint(order_key, (128,), 0, 3)
            eta = ETA * width ** (-slower * (2 * gamma - 1))
            path = shallow_sgd(net, x, y, eta, order, jnp.stack([0, 1, width.astype(int)]))[0]
            # the first step in units of what the example that it sees was missed by, which the start changes with N
            return path, (path[1] - path[0]) / (y - path[0])[order[0]]

        n = len(WIDTHS)
        gammas, slower = jnp.repeat(cases, n), jnp.repeat(jnp.array([0.0, 0, 0, 1]), n)
        widths, keys = jnp.tile(WIDTHS, len(cases)), jax.random.split(run_key, (len(cases) * n, repetitions))
        paths, steps = jax.lax.map(lambda a: jax.vmap(lambda k: run(k, *a[1:]))(a[0]), (keys, gammas, slower, widths))
        start = paths[:, :, 0].reshape(-1, 3).T
        labels = jnp.broadcast_to(y[:, None], start.shape)
        limit = flow_predictions(limit_kernel(x), labels, jnp.array([ETA]), start=start, reduction="mean").train[0]
        away = paths[:, :, 2] - limit.T.reshape(paths[:, :, 2].shape)

        def size(a):
            return jnp.sqrt(jnp.mean(a**2, (1, 2))).reshape(len(cases), n)

        return size(away), size(steps), paths[:, :, 0].reshape(len(cases), n, -1, 3), x

    away, first, start, x = measure(key)
    # 200 runs of three points: each root mean square to about 4 %, the slope to 0.02, its interval to 0.09; the next
    # order counts for as much again
    fits = {"tolerance": 0.2, "along": "width"}
    for i, gamma in enumerate(cases[:2]):
        yield rate(f"error at the end, gamma {gamma:g}", WIDTHS, away[i], -0.5, **fits)
    for i, gamma in enumerate(cases[:3]):
        yield rate(f"first step over the residual, gamma {gamma:g}", WIDTHS, first[i], -1.0, **fits)
        # at width 64, averaged over the three points, which have one law
        square = jnp.mean(start[i, 4] ** 2, 1)
        sigma = float(start_covariance(x)[0, 0])
        yield estimate(
            f"second moment of the start, gamma {gamma:g}", square, sigma * 64 ** (1 - 2 * gamma), wrong=sigma
        )
    yield control("the rate of γ = 0.7: here that of 0.5", rate("error at the end", WIDTHS, away[3], -0.5, **fits))


@claim(rows=("M19.35",), erratum="For gamma above 1/2 the start of the limit is 0, not the Gaussian of gamma 1/2.")
def printed_start(key, *, repetitions: Count = 16000):
    r"""The start of the limit is the same Gaussian for every scaling.

    As printed: with the rate $\eta N^{-2(1-\gamma)}$ "the statement of Theorem 19.3 remains true for any given value of
    $\gamma\in[1/2,1)$" (M, Exercise 19.3), and that statement has $h_0=\mathcal G\sim\mathcal N(0,\Sigma)$. Then the
    second moment of $m_0(x)$ would tend to $\Sigma(x,x)$. It is $N^{1-2\gamma}$ times that: constant for
    $\gamma=\frac12$, and on its way to 0 for $\gamma>\frac12$, so that $h_0=0$.
    """
    widths = np.array([16.0, 32, 64, 128, 256])

    @jax.jit
    def moments(key):
        x = jnp.array([1.0, 0.5])

        def at(width_and_gamma):
            width, gamma = width_and_gamma
            draw = lambda k: draw_shallow(256, 2, key=k, gamma=gamma, width=width)(x)  # noqa: E731
            return jnp.mean(jax.vmap(draw)(jax.random.split(key, repetitions)) ** 2)

        pairs = jnp.tile(jnp.asarray(widths), 2), jnp.repeat(jnp.array([0.5, 0.7]), len(widths))
        return jax.lax.map(at, pairs).reshape(2, -1)

    half, more = moments(key)
    # a mean of 16000 squares is known to 1 %, a slope over a factor 16 to 0.005; with 5 points Student's interval is
    # six times that, give or take a factor of two
    fits = {"tolerance": 0.1, "along": "width"}
    yield printed(rate("second moment of the start, gamma 0.7: a limit above 0", widths, more, 0.0, **fits))
    yield rate("second moment of the start, gamma 0.7", widths, more, -0.4, **fits)
    yield rate("second moment of the start, gamma 0.5", widths, half, 0.0, **fits)
