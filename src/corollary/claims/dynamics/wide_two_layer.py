"""Training moves predictions by the tangent kernel; in wide networks of one hidden layer that kernel hardly moves."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from corollary import Network
from corollary.claims.kernels._wide import unit_rows
from corollary.dynamics import draw_signed, wide_descent
from corollary.dynamics.shallow import draw_shallow, tangent_kernel, tangent_parts
from corollary.evidence import (
    Count,
    Size,
    at_most,
    claim,
    control,
    equal,
    estimate,
    frequency_at_most,
    monotone,
    rate,
)
from corollary.generalization import kernel_change_bound, kernel_deviation, sufficient_width, weight_movement_bound
from corollary.kernels import Activation, Architecture, Dense, empirical_ntk, first_layer_ntk
from corollary.optimization import Problem, gradient_flow


@claim(rows=("T09.05", "T09.03"))
def evolution_of_predictions(key, *, n: Size = 5, dim: Size = 3, width: Size = 6):
    r"""Gradient flow moves the predictions of any network by its tangent kernel.

    $\dot w=-\nabla\ell(w)$ with $\ell=\frac12\sum_i(f(w,x_i)-y_i)^2$, $u_i=f(w,x_i)$ and
    $H_{ij}(t)=\langle\partial_wf(x_i), \partial_wf(x_j)\rangle$ at $w(t)$: $\dot u=-H(t)(u-y)$ (Lemma 9.1.1), at
    any width, and $\dot f(x)=-\sum_iH(x,x_i)(u_i-y_i)$ at any other point. A step $\eta$ of gradient descent does
    it up to $O(\eta^2)$, and many of them follow the flow up to $O(\eta)$. For another loss $u-y$ has to be its
    gradient in the outputs; a step with momentum is not of this form.
    """
    network = Architecture([Dense(width), Activation("tanh"), Dense(width), Activation("softplus"), Dense(1)])
    t, h = 0.3, 1e-4
    etas, counts = 2.0 ** -np.arange(7, 13), np.array([32, 64, 128, 256])

    def loss_of_outputs(u, y, logistic):
        return jnp.sum((1 - logistic) * (u - y) ** 2 / 2 + logistic * jax.nn.softplus(-y * u))

    @jax.jit
    def measure(key):
        x_key, y_key, w_key, v_key = jax.random.split(key, 4)
        x, y = unit_rows(x_key, (n + 2, dim)), jax.random.rademacher(y_key, (n,), float)
        start, tree = ravel_pytree(network.init((dim,), key=w_key).params)

        def outputs(w):
            return network.apply(tree(w), x)[:, 0]

        def loss(w, y, logistic):
            return loss_of_outputs(outputs(w)[:n], y, logistic)

        def along(logistic):
            flow = gradient_flow(Problem(loss, (y, logistic), start), jnp.array([t - h, t, t + h]), substeps=150)
            u = jax.vmap(outputs)(flow.theta)
            kernel = empirical_ntk(Network(network.apply, tree(flow.theta[1]), batched=True), x, x[:n])
            slope = jax.grad(loss_of_outputs)(u[1, :n], y, logistic)
            fall = loss(start, y, logistic) - flow.value[1], flow.dissipated[1]
            return (u[2] - u[0]) / (2 * h), -kernel @ slope, -kernel @ (u[1, :n] - y), fall, flow.theta[1]

        changes, by_gradient, by_residual, falls, ends = jax.vmap(along)(jnp.array([0.0, 1.0]))
        gradient = jax.grad(loss)(start, y, 0.0)
        first = empirical_ntk(Network(network.apply, tree(start), batched=True), x, x[:n]) @ (y - outputs(start)[:n])
        velocity = jnp.linalg.norm(gradient) / start.size**0.5 * jax.random.normal(v_key, start.shape)

        def remainder(eta, momentum):
            moved = outputs(start - eta * (gradient + momentum * velocity))
            return jnp.linalg.norm(moved - outputs(start) - eta * first)

        def euler(count):
            step = lambda _, w: w - t / count * jax.grad(loss)(w, y, 0.0)  # noqa: E731
            return jnp.linalg.norm(jax.lax.fori_loop(0, count, step, start) - ends[0])

        remainders = jax.vmap(jax.vmap(remainder, (0, None)), (None, 0))(jnp.asarray(etas), jnp.array([0.0, 1.0]))
        return changes, by_gradient, by_residual, falls, remainders, jax.vmap(euler)(jnp.asarray(counts))

    changes, by_gradient, by_residual, (fall, dissipated), (plain, momentum), euler = measure(key)
    # central differences: h² times the third derivative, which is λ³ of what moves, with λ of a few tens at most
    size = float(jnp.abs(by_residual).max())
    yield equal("velocity of the predictions", changes[0], by_residual[0], rtol=1e-5, atol=1e-5 * size)
    yield equal("logistic loss: its gradient in the outputs", changes[1], by_gradient[1], rtol=1e-5, atol=1e-5 * size)
    yield equal("fall of the loss: integral of the squared gradient", fall, dissipated, rtol=1e-6)
    # slopes of first and second order in steps below 1/100: the next order bends them by less than the tolerance
    yield rate("remainder of one step", etas, plain, 2.0, tolerance=0.05, along="step")
    yield rate("distance of descent from the flow", t / counts, euler, 1.0, tolerance=0.1, along="step")
    yield control(
        "the squared loss: here the logistic",
        equal("velocity of the predictions", changes[1], by_residual[1], rtol=1e-5, atol=1e-5 * size),
    )
    yield control(
        "a step of gradient descent: here with momentum",
        rate("remainder of one step", etas, momentum, 2.0, tolerance=0.05),
    )


@claim(rows=("T09.10",))
def concentration(key, *, n: Size = 10, dim: Size = 8, draws: Count = 800, width: Size = 100):
    r"""The tangent kernel at initialisation is near its limit, with an error of order one over the root of the width.

    $H(0)_{ij}=x_i\cdot x_j\frac1m\sum_r\sigma'(w_r\cdot x_i)\sigma'(w_r\cdot x_j)$ for unit vectors and
    $|\sigma'|\le1$: with probability $1-\delta$ all entries are within $\sqrt{\frac2m\log\frac{2n^2}\delta}$ of
    $H^*$ (Hoeffding), and $\|H(0)-H^*\|_2\le n\max_{ij}$, so that $m\ge16n^2\log(n/\delta)/\epsilon^2$ suffices for
    $\epsilon$ (Lemma 9.2.2; $n\ge2$). Exactly, $\mathbb E\|H(0)-H^*\|_F^2=\frac1m\sum_{ij}(x_i\cdot
    x_j)^2\operatorname{Var}(\sigma'\sigma')$, for ReLU $p(1-p)$ with $p=\frac{\pi-\theta_{ij}}{2\pi}$. With an
    unbounded $\sigma'$ the constant fails.
    """
    delta, few, epsilon = 0.3, 4, 1.0
    widths = (32, 64, 128, 256, 512)
    enough = sufficient_width(few, epsilon, delta)

    @jax.jit
    def measure(key):
        x_key, key, size_key, enough_key = jax.random.split(key, 4)
        x = unit_rows(x_key, (n, dim))
        inner = x @ x.T
        limit = first_layer_ntk(x)

        def sums(key, m, count):
            return jax.random.normal(key, (count, m, dim)) @ x.T

        def kernels(slopes):
            return inner * jnp.einsum("kmi,kmj->kij", slopes, slopes) / slopes.shape[1]

        def relu(z):
            return kernels((z > 0).astype(z.dtype)) - limit

        z = sums(key, width, draws)
        off, cubic = relu(z), kernels(z**2) - inner * (1 + 2 * inner**2)
        # one draw, cut into networks of each width
        many = sums(size_key, widths[-1], 320)
        sizes = [jnp.mean(jnp.linalg.norm(relu(many.reshape(-1, m, n)), axis=(1, 2))) for m in widths]
        last = relu(sums(enough_key, enough, 200))[:, :few, :few]
        entries = jnp.abs(off[:, 0, 0]), jnp.abs(off).max((1, 2)), jnp.abs(cubic).max((1, 2))
        return inner, entries, jnp.sum(off**2, (1, 2)), jnp.stack(sizes), jnp.linalg.norm(last, axis=(1, 2))

    inner, (one, entries, cubic), squares, sizes, last = measure(key)
    z = np.clip(np.asarray(inner), -1, 1)
    p = (np.pi - np.arccos(z)) / (2 * np.pi)
    np.fill_diagonal(p, 0.5)
    second = (z**2 * p * (1 - p)).sum() / width
    yield estimate("mean squared error of the kernel", squares, second, wrong=2 * second)
    # a norm varies by a quarter or so, a mean over 320 draws or more by one or two hundredths: an interval of ±0.04
    yield rate("error of the kernel", widths, sizes, -0.5, tolerance=0.1, along="width")
    deviation = float(kernel_deviation(n, width, delta))
    yield frequency_at_most("an entry beyond the bound", entries > deviation, delta)
    sharp = float(kernel_deviation(n, width, delta, spread=1.0))
    yield frequency_at_most("an entry beyond the bound for slopes from 0 to 1", entries > sharp, delta)
    alone = float(kernel_deviation(1, width, delta, spread=1.0))
    yield frequency_at_most("one point: beyond its bound", one > alone, delta)
    # the Frobenius norm is at least the spectral one
    yield frequency_at_most(f"beyond {epsilon} at the sufficient width", last > epsilon, delta)
    yield control(
        "bounded slopes: here of a cubic", frequency_at_most("an entry beyond the bound", cubic > deviation, delta)
    )


@claim(rows=("T09.11",))
def weights_move_little(key, *, n: Size = 8, dim: Size = 6, nets: Count = 10, steps: Count = 60):
    r"""In a wide network no weight moves far, and the tangent kernel stays where it was.

    $f=\frac1{\sqrt m}\sum_ra_r\sigma(w_r\cdot x)$, signs $a_r$, unit vectors, $|\sigma'|,|\sigma''|\le1$. On every
    path $\|w_r(t)-w_r(0)\|\le\frac1{\sqrt m}\int_0^t\|u-y\|_1$ and
    $|H(t)-H(0)|_{ij}\le\frac2m\sum_r\|w_r(t)-w_r(0)\|$ (Lemma 9.2.3; a sum over the steps in the place of the
    integral for gradient descent). So the units move by $O(m^{-1/2})$, all of them together by $O(1)$, and the
    kernel by $O(m^{-1/2})$ at most; with random signs and a smooth $\sigma$ (softplus) it is nearly $1/m$. Divided
    by $m$ instead, the average of the mean field, and trained as fast, the kernel moves as much at every width.
    """
    widths, step = np.array([32, 64, 128, 256, 512]), 0.08

    @jax.jit
    def measure(key):
        x_key, y_key, key = jax.random.split(key, 3)
        x, y = unit_rows(x_key, (n, dim)), jax.random.normal(y_key, (n,))

        def run(key, width, gamma):
            # pairs of opposite signs: the outputs start at zero, and networks differ less
            options = {"activation": "softplus", "width": width, "gamma": gamma}
            net = draw_signed(int(widths[-1]), dim, key=key, antisymmetric=True, **options)

            def observe(now):
                moved = jnp.linalg.norm(now.inner - net.inner, axis=1)
                return now(x) - y, moved.max(), moved.sum(), (moved**2).sum(), tangent_parts(now, x)[1]

            (miss, most, total, square, h), _ = wide_descent(net, x, y, step, np.arange(steps + 1), observe=observe)
            change = jnp.abs(h - h[0]).max((1, 2))
            bounds = weight_movement_bound(miss, step, width), kernel_change_bound(total[:, None], width)
            return most, bounds[0], change, bounds[1], jnp.sqrt(square[-1]), jnp.sum(miss**2, 1)

        over_widths = jax.vmap(run, (None, 0, None))
        return jax.vmap(over_widths, (0, None, 0))(
            jax.random.split(key, nets + 4),
            jnp.asarray(widths, float),
            jnp.where(jnp.arange(nets + 4) < nets, 0.5, 1.0),
        )

    most, bound, change, change_bound, together, loss = measure(key)
    k = np.arange(steps + 1)
    yield at_most("largest movement of a unit", most[:nets], bound[:nets], atol=1e-12, x=k, along="step")
    yield at_most("largest change of the kernel", change[:nets], change_bound[:nets], atol=1e-12, x=k, along="step")
    yield at_most("loss at the end over that at the start", loss[:nets, :, -1] / loss[:nets, :, 0], 1.0)
    # pairs make the networks so much alike that the slopes are known to a hundredth
    total, end = np.asarray(together)[:nets].mean(0), np.asarray(change)[:nets, :, -1].mean(0)
    yield rate("movement of all units together", widths, total, 0.0, tolerance=0.05, along="width")
    per_unit = total / np.sqrt(widths)
    yield rate("movement of a unit, root mean square", widths, per_unit, -0.5, tolerance=0.05, along="width")
    yield rate("change of the kernel", widths, end, -0.5, tolerance=0.05, side="at most", along="width")
    averaged = np.asarray(change)[nets:, :, -1].mean(0)
    yield control(
        "1/√m at the output: here 1/m",
        rate("change of the kernel", widths, averaged, -0.5, tolerance=0.05, side="at most", along="width"),
    )


@claim(rows=("E09.08", "E09.11"))
def parameters_stay(key, *, n: Size = 8, dim: Size = 12, nets: Count = 48, steps: Count = 100):
    r"""Wide ReLU networks with both layers trained: relative movement and change of the kernel vanish with the width.

    $f=\frac1{\sqrt m}\sum_jv_j\phi(w_j\cdot x)$, all weights from $\mathcal N(0,1)$ and trained on fixed data:
    $\|\theta_t-\theta_0\|=O(1)$ while $\|\theta_0\|\sim\sqrt{(d+1)m}$, so that the relative movement is of order
    $m^{-1/2}$, and $\|K_t-K_0\|/\|K_0\|$ falls at least as fast. With $\frac1m$, trained as fast, neither does.
    """
    widths = np.array([32, 64, 128, 256, 512])

    @jax.jit
    def measure(key):
        x_key, y_key, key = jax.random.split(key, 3)
        # few points in many dimensions: no eigenvalue of the kernel is small, whatever the labels lie along
        x, y = unit_rows(x_key, (n, dim)), jax.random.normal(y_key, (n,))

        def run(key, width, gamma):
            net = draw_shallow(
                int(widths[-1]), dim, key=key, outer="normal", activation="relu", width=width, gamma=gamma
            )
            present = jnp.arange(widths[-1]) < width

            def size(a, b):
                return jnp.sqrt(jnp.sum(present * (a**2 + jnp.sum(b**2, 1))))

            before = tangent_kernel(net, x)
            # well below 2 over the trace, which is about n
            (loss,), end = wide_descent(
                net, x, y, 0.5 / n, np.array([steps]), outer=True, observe=lambda now: jnp.sum((now(x) - y) ** 2)
            )
            moved = size(end.outer - net.outer, end.inner - net.inner) / size(net.outer, net.inner)
            change = jnp.linalg.norm(tangent_kernel(end, x) - before) / jnp.linalg.norm(before)
            return moved, change, loss / jnp.sum((net(x) - y) ** 2)

        over_widths = jax.vmap(run, (None, 0, None))
        return jax.vmap(over_widths, (0, None, 0))(
            jax.random.split(key, nets + 4),
            jnp.asarray(widths, float),
            jnp.where(jnp.arange(nets + 4) < nets, 0.5, 1.0),
        )

    moved, change, left = measure(key)
    # geometric means, because the changes of single networks spread over a decade
    typical, averaged = (
        [np.exp(np.log(np.asarray(a)[part]).mean(0)) for a in (moved, change)]
        for part in (slice(nets), slice(nets, None))
    )
    yield at_most("share of the loss that is left", np.asarray(left)[:nets].mean(0), 0.2, x=widths, along="width")
    # Without pairs the intervals are ±0.1 for the movement and ±0.15 for the kernel
    yield rate("relative movement", widths, typical[0], -0.5, tolerance=0.15, along="width")
    yield rate("change of the kernel", widths, typical[1], -0.5, tolerance=0.1, side="at most", along="width")
    yield monotone("change of the kernel falls", typical[1], "decreasing", x=widths, along="width")
    yield control(
        "1/√m at the output: here 1/m",
        rate("relative movement", widths, averaged[0], -0.5, tolerance=0.15, along="width"),
    )
    yield control(
        "1/√m at the output: here 1/m",
        rate("change of the kernel", widths, averaged[1], -0.5, tolerance=0.1, side="at most", along="width"),
    )
