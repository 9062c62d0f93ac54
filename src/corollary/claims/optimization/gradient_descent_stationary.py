"""What many gradient steps do to the gradient and to the distance from the minimisers."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, monotone, printed, rate
from corollary.optimization import (
    Problem,
    cosine_wells,
    cosines,
    huber,
    least_squares,
    log_squares,
    minimize,
    quadratic,
    random_cosines,
    random_quadratic,
    rates,
    ridge_logistic,
    sigmoid_classification,
    washboard,
)

gd = rates.gradient_descent


@claim(rows=("B05.19", "E03.07", "T02.24", "T02.25"))
def stationary_rate(key, *, dim: Size = 20, runs: Size = 8, steps: Count = 10000):
    r"""Gradient descent on a smooth function finds small gradients at the rate 1/k, without convexity.

    Let $f$ be $L$-smooth and bounded below by $f^*$. With $\eta=1/L$, $\sum_{i<k}\|\nabla f(\theta_i)\|^2\le
    2L(f(\theta_0)-f(\theta_k))$, hence the smallest squared gradient among the first $k$ is at most
    $\frac{2L(f(\theta_0)-f^*)}k$ (E, Lemma 3.2; B, Theorem 38 for all $\eta\le1/L$), some gradient is at most
    $\epsilon$ within $\lceil2L(f(\theta_0)-f^*)/\epsilon^2\rceil$ steps, and with $|f|\le M/2$ the mean square is at
    most $2ML/T$ (T, Theorem 2.5.1, prints 4). Equality after one step on $\frac L2\theta^2$. The best constant for the
    smallest of $n+1$ gradients is $\frac{4L(f(\theta_0)-f^*)}{3n+2}$, attained by a slope whose gradient dips to a half
    between the iterates, so that the texts are within a factor $\frac32$; a straight slope takes half of their steps.
    """
    k = np.unique(np.geomspace(1, steps, 80).astype(int))
    epsilons = jnp.array([1.0, 0.3, 0.1])
    horizons = (1, 10, 100)

    @jax.jit
    def measure(key):
        def from_cosines(key, dim):
            """Random cosines of `dim` out of a hundred coordinates: the others have no gradient."""
            wide = random_cosines(100, key=key, terms=10)
            amplitudes, directions, phases = wide.data
            p = cosines(amplitudes, directions * jnp.sqrt(100 / dim) * (jnp.arange(100) < dim), phases)

            def advance(theta, _):
                value, slope = jax.value_and_grad(p)(theta)
                return theta - slope / p.L, (value, slope @ slope)

            end, (value, square) = jax.lax.scan(advance, p.start, length=steps)
            sums, later = jnp.cumsum(square)[k - 1], jnp.append(value, p(end))[k]
            bounded = 2 * jnp.abs(amplitudes).sum()  # M: twice the largest size of the value
            return sums / (2 * p.L * (value[0] - later)), sums / k, bounded * p.L

        def from_logarithms(key):
            p = log_squares(3 * jax.random.normal(key, (dim,)))
            path = minimize(p, optax.sgd(0.5 / p.L), steps=500)
            least = jax.lax.associative_scan(jnp.minimum, path.gradient_norm[:-1] ** 2)
            fast = minimize(p, optax.sgd(1 / p.L), steps=500)
            hits = jnp.argmax(fast.gradient_norm[:, None] <= epsilons, axis=0)
            return least / gd.stationary(p.L, path.value[0], jnp.arange(500), step=0.5 / p.L), hits, fast.value[0]

        bowl = minimize(quadratic(jnp.array([3.0])), optax.sgd(1 / 3.0), steps=1)
        steep = minimize(quadratic(jnp.array([3.0])), optax.sgd(1.5 / 3.0), steps=1)
        # with this gap the slope is 2 and nothing is rounded: an error would double with every step
        heights = [(3 * n + 2) / 4 for n in horizons]
        boards = [washboard(n, L=4.0, gap=h) for n, h in zip(horizons, heights, strict=True)]
        worst = [
            minimize(p, optax.sgd(0.25), steps=n).gradient_norm.min() ** 2 / h
            for p, n, h in zip(boards, horizons, heights, strict=True)
        ]
        # slope just above epsilon: every step lowers the value by slope^2 / L
        slope = 0.0101
        slide = huber(slope, 2.0)
        path = minimize(slide, optax.sgd(1.0), steps=500)
        kink = minimize(Problem(jnp.abs, (), jnp.array(1.05)), optax.sgd(0.1), steps=500)
        keys = jax.random.split(key, 3 * runs)
        return (
            jax.vmap(from_cosines)(keys, jnp.repeat(jnp.array([2, 20, 100]), runs)),
            jax.vmap(from_logarithms)(keys[:runs]),
            (bowl.gradient_norm[0] ** 2, 6 * bowl.value[0]),
            (steep.gradient_norm[0] ** 2, gd.stationary(3.0, steep.value[0], 0) / 1.5),
            jnp.stack(worst),
            (jnp.argmax(path.gradient_norm <= 0.01), slide(2.0)),
            jnp.cumsum(kink.gradient_norm[:-1] ** 2) / jnp.arange(1, 501),
        )

    cosines_, (least, hits, gaps), (square, drop), (long, promise), worst, (slid, height), kink = measure(key)
    sums, mean, bounded = cosines_
    # where the path has converged the differences of values round: sums are of the order of 1
    yield at_most("cosines, d = 2, 20, 100: sum of squared gradients over 2L times the drop", sums, 1.0, x=k, along="k")
    yield at_most("cosines: mean square", mean, 2 * bounded[:, None] / k, x=k, along="T")
    yield at_most("logarithms: least squared gradient over the bound, step 0.5/L", least.max(0), 1.0, along="k")
    yield at_most("logarithms: steps to a small gradient", hits, gd.steps_to_stationary(2.0, gaps[:, None], epsilons))
    yield equal("quadratic, one step of 1/L: attained", square, drop, rtol=1e-12)
    n = np.array(horizons)
    tight = gd.stationary_tight(4.0, 1.0, n)
    yield equal("slope that dips: the best constant is attained", worst, tight, rtol=1e-9, x=n, along="n")
    yield at_most("slope that dips: bound of the texts", worst, gd.stationary(4.0, 1.0, n), x=n, along="n")
    ratio = slid / gd.steps_to_stationary(1.0, height, 0.01)
    yield equal("a straight slope: share of the steps needed", ratio, 0.5, rtol=0.03)
    yield control("a step of 1.5/L", at_most("squared gradient at the start", long, promise))
    bound = 2 * 1.05 * 1.0 / jnp.arange(1, 501)
    yield control("the absolute value, not smooth", at_most("mean square", kink, bound, along="T"))


@claim(rows=("B05.19", "E03.07"))
def stationary_network(key, *, runs: Size = 8, units: Size = 4, n: Size = 30, steps: Count = 400):
    r"""On the loss of a tanh network the sum of the squared gradients is paid for by the fall of the loss.

    No constant $L$ is known for a network, but the theorem needs it only on the path: if no curvature between
    $\theta_i$ and $\theta_{i+1}$ exceeds $L$ and $\eta\le1/L$, then
    $\sum_{i<k}\|\nabla f(\theta_i)\|^2\le\frac{f(\theta_0)-f(\theta_k)}{\eta(1-\eta L/2)}
    \le\frac2\eta(f(\theta_0)-f(\theta_k))$,
    and some gradient is at most $\epsilon$ after $\lceil\frac{2f(\theta_0)}{\eta\epsilon^2}\rceil$ steps since
    the loss is not negative. Here $f$ is the mean squared error of a network of tanh units with three inputs, $L$
    the largest eigenvalue of its Hessian met on the path, and the step the longest of $1,\frac12,\frac14,\dots$
    that is at most $1/L$ on its own path. With the step 1 for all it fails.
    """
    etas = 2.0 ** -jnp.arange(9.0)
    epsilons = jnp.array([0.3, 0.1, 0.03])
    # every point and middle of the first 20 steps, where the path turns, then every tenth
    spots = np.concatenate([np.arange(0, 40), np.arange(40, 2 * steps, 20), np.arange(41, 2 * steps, 20)])

    @jax.jit
    def measure(key):
        def one(key):
            x_key, y_key, w_key = jax.random.split(key, 3)
            x = jax.random.normal(x_key, (n, 3))
            y = jnp.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.1 * jax.random.normal(y_key, (n,))

            def loss(theta, x, y):
                w, b, a = theta[:, :3], theta[:, 3], theta[:, 4]
                return jnp.mean((jnp.tanh(x @ w.T + b) @ a - y) ** 2)

            p = Problem(loss, (x, y), jax.random.normal(w_key, (units, 5)))

            def follow(eta):
                path = minimize(p, optax.sgd(eta), steps=steps)
                middles = (path.theta[1:] + path.theta[:-1]) / 2
                between = jnp.stack([path.theta[:-1], middles], 1).reshape(2 * steps, units, 5)[spots]
                hessians = jax.vmap(p.hessian)(between).reshape(-1, 5 * units, 5 * units)
                # a path that has blown up is no candidate: its curvature counts as infinite
                sane = jnp.isfinite(hessians).all((1, 2))
                top = jax.lax.map(lambda h: jnp.linalg.eigvalsh(h)[-1], jnp.where(sane[:, None, None], hessians, 0.0))
                return path.value, path.gradient_norm, jnp.where(sane, top, jnp.inf).max()

            value, norm, L = jax.lax.map(follow, etas)
            chosen = jnp.argmax(etas * L <= 1)
            return etas[chosen], L[chosen], value[chosen], norm[chosen], value[0, :11], norm[0, :10]

        return jax.lax.map(one, jax.random.split(key, runs))

    eta, L, value, norm, high, steep = measure(key)
    k = np.unique(np.geomspace(1, steps, 60).astype(int))
    yield at_most("largest curvature met on the path, times the step", eta * L, 1.0)
    sums = jnp.cumsum(norm**2, axis=1)[:, k - 1]
    paid = (value[:, :1] - value[:, k]) / (eta * (1 - eta * L / 2))[:, None]
    yield at_most("sum of squared gradients", sums, paid, x=k, along="k")
    yield at_most(
        "sum of squared gradients, 2/step times the fall", sums, 2 / eta[:, None] * (value[:, :1] - value[:, k])
    )
    least = jax.lax.associative_scan(jnp.minimum, norm, axis=1)
    hits = (least[:, :, None] > epsilons).sum(1)  # all of them where it is not reached yet
    most = jnp.ceil(2 * value[:, :1] / (eta[:, None] * epsilons**2))
    yield at_most("steps to a gradient of 0.3, 0.1, 0.03", hits, most)
    yield control(
        "a step beyond one over the curvature on the path",
        at_most("sum of squared gradients", jnp.sum(steep**2, axis=1), 2 * (high[:, 0] - high[:, 10])),
    )


@claim(rows=("M17.09", "M17.10"))
def distances(key, *, dim: Size = 6, steps: Count = 200):
    r"""On a convex function every gradient step comes closer to every minimiser, and says how low it got.

    If $f$ is convex and $L$-smooth and $\eta\le1/L$, for every minimiser $f(\theta_{k+1})-f^*\le\frac1{2\eta}
    (\|\theta_k-\theta^*\|^2-\|\theta_{k+1}-\theta^*\|^2)$; hence the distances do not increase, which is true up to
    $\eta\le2/L$. Equality in the first for a linear slope, as in the Huber function before its bowl.
    """

    @jax.jit
    def measure(key):
        x_key, y_key, q_key, z_key = jax.random.split(key, 4)
        flat = least_squares(jax.random.normal(x_key, (dim // 2, dim)), jax.random.normal(y_key, (dim // 2,)))
        normal = jnp.linalg.svd(flat.data[0])[2][-1]
        curved = random_quadratic(dim, 30.0, key=q_key)
        logistic = ridge_logistic(jax.random.normal(z_key, (40, dim)), jnp.arange(40) % 2.0, 0.01, 2 * jnp.ones(dim))

        def both(p, minimiser, product):
            path = minimize(p, optax.sgd(product / p.L), steps=steps)
            away = jnp.linalg.norm(path.theta - minimiser, axis=-1)
            bound = gd.one_step_excess(away[:-1], away[1:], step=product / p.L)
            return path.value[1:] - p.minimum, bound, away

        cases = [
            (flat, flat.minimiser),
            (flat, flat.minimiser + 5 * normal),
            (curved, curved.minimiser),
            (logistic, logistic.minimiser),
        ]
        found = [jax.vmap(lambda c, p=p, m=m: both(p, m, c))(jnp.array([0.3, 1.0, 1.95])) for p, m in cases]
        slide = huber(0.001, 1.0)
        path = minimize(slide, optax.sgd(1.0), steps=50)
        slope = gd.one_step_excess(path.theta[:-1], path.theta[1:], step=1.0)
        hill = minimize(cosine_wells(jnp.array([jnp.pi - 0.3])), optax.sgd(1.0), steps=1)
        beyond = minimize(quadratic(jnp.ones(1)), optax.sgd(2.05), steps=5)
        return [jnp.stack(part) for part in zip(*found, strict=True)], (path.value[1:], slope), hill, beyond.theta[:, 0]

    (excess, bound, away), (slid, slope), hill, beyond = measure(key)
    # near the end both sides are differences of numbers of the order of the squared distances, 1e2 with five away
    yield at_most(
        "excess after a step, steps 0.3/L and 1/L", excess[:, :2], bound[:, :2], atol=1e-12, along="iteration"
    )
    yield monotone("distances, steps 0.3/L, 1/L and 1.95/L", away, "decreasing", atol=1e-13, along="iteration")
    # on the slope the two sides are delta theta - delta^2 / 2 and delta theta + delta^2 / 2, with theta > 0.9
    yield equal("a linear slope: attained", slid, slope, rtol=0.001 / 0.9)
    square = jnp.square(hill.theta - 0.0)[:, 0]
    yield control("near a maximum, not convex", at_most("excess", hill.value[1], (square[0] - square[1]) / 2))
    yield control("a step of 2.05/L", monotone("distance", jnp.abs(beyond), "decreasing"))


@claim(
    rows=("M17.09",),
    erratum="The third line of the display in the proof of Lemma 17.9 has lost the gradient inside the square; what is "
    "left is negative.",
)
def printed_square(key, *, dim: Size = 6, steps: Count = 20):
    r"""The proof of Lemma 17.9 as printed: the excess after a step is below what the third line says.

    $\Lambda(\theta_{k+1})-\Lambda(\theta^*)\le-\frac1{2\eta}\|\theta_k-\theta^*\|^2-\eta\|\nabla\Lambda(\theta_k)\|^2+
    \frac1{2\eta}\|\theta_k-\theta^*\|^2$ for convex, $L$-smooth $\Lambda$ and $\eta L\le1$; here a quadratic.
    Corrected: the first square is $\|\theta_k-\theta^*-\eta\nabla\Lambda(\theta_k)\|^2$, and nothing is subtracted from
    it.
    """
    problem = random_quadratic(dim, 20.0, key=key)
    path = minimize(problem, optax.sgd(1 / problem.L), steps=steps)
    slope, away = jax.vmap(jax.grad(problem))(path.theta[:-1]), path.theta[:-1] - problem.minimiser
    excess, half = (path.value - problem.minimum)[1:], problem.L / 2
    before = half * jnp.sum(away**2, axis=1)
    corrected = before - half * jnp.sum((away - slope / problem.L) ** 2, axis=1)
    # differences of squares of the order of 10
    yield at_most("excess after the step, corrected line", excess, corrected, atol=1e-13, along="iteration")
    line = -before - jnp.sum(slope**2, axis=1) / problem.L + before
    yield printed(at_most("excess after the step, printed line", excess, line, atol=1e-13, along="iteration"))


@claim(rows=("M17.14", "M17.16"))
def decreasing_steps(key, *, dim: Size = 3, runs: Size = 16, steps: Count = 20000):
    r"""Steps whose sum is infinite and whose squares can be summed lead to critical points, convex or not.

    Let $\Lambda$ be $L$-smooth and bounded below with bounded gradient, $\sum\eta_k=\infty$ and $\sum\eta_k^2<\infty$.
    Then $\Lambda(\theta_k)$ converges and $\|\nabla\Lambda(\theta_k)\|\to0$, even if the first steps are longer than
    $2/L$. Steps $k^{-2}$ stop short, since the path is no longer than $L_1\sum\eta_k$; a constant step of $2.5/L$ goes
    on for ever. For gradients without noise a constant step up to $1/L$ does as well: the second condition is
    sufficient, not necessary.
    """
    from corollary.optimization.schedules import inverse_power, inverse_time

    @jax.jit
    def measure(key):
        l_key, c_key, s_key, x_key, y_key = jax.random.split(key, 5)
        x, y = jax.random.normal(x_key, (40, dim)), jax.random.bernoulli(y_key, shape=(40,)).astype(float)

        def follow(p, starts, schedule, steps=steps):
            path = jax.vmap(lambda s: minimize(p, optax.sgd(schedule), steps=steps, start=s))(starts)
            return path.gradient_norm, path.value

        logs, wells = log_squares(jnp.zeros(dim)), cosine_wells(jnp.zeros(dim))
        sigmoid = sigmoid_classification(x, y)
        long = inverse_time(10.0, 1.0, 1.0)  # the first step is 5, far beyond 2/L for the first two
        found = [
            follow(logs, 3 * jax.random.normal(l_key, (runs, dim)), long),
            follow(wells, 3 * jax.random.normal(c_key, (runs, dim)), long),
            follow(sigmoid, jax.random.normal(s_key, (runs, dim)), inverse_time(200.0, 1.0, 1.0)),
        ]
        ends = jnp.stack([g[:, -1] for g, _ in found])
        swing = jnp.stack([jnp.ptp(v[:, -100:], axis=1) for _, v in found])
        k = jnp.arange(1, steps + 1)[-99:]
        eta = jnp.array([10.0, 10.0, 200.0])[:, None, None] / (1 + k)
        tail = jnp.stack([g[:, -100:-1] for g, _ in found])
        most = (eta * (1 + eta * jnp.stack([logs.L, wells.L, sigmoid.L])[:, None, None] / 2) * tail**2).sum(-1)
        rises = jnp.max(jnp.diff(found[0][1][:, :20], axis=1))
        far = 50 + jax.random.uniform(l_key, (runs, dim))
        short = follow(logs, far, inverse_power(1.0, 2.0), 5000)[0][:, -1]
        fixed = follow(wells, 1 + 0.5 * jax.random.uniform(c_key, (runs, dim)), optax.constant_schedule(2.5), 2000)
        steady = follow(wells, 3 * jax.random.normal(c_key, (runs, dim)), optax.constant_schedule(1.0), 2000)
        return ends, (swing, most), rises, short, fixed[0][:, -1], steady[0][:, -1]

    ends, (swing, most), rises, short, fixed, steady = measure(key)
    yield at_most("gradient norm at the end: logarithms, wells, sigmoid", ends, 1e-2)
    # what the expansion of a step allows; it goes to zero with the sum of the squares
    yield at_most("swing of the value over the last 100 iterates", swing, most, atol=1e-14)
    yield at_most("what that swing may be", most, 1e-2)
    yield at_least("but the value rises at first", rises, 0.0)
    yield at_most("wells with the constant step 1/L: gradient norm at the end", steady, 1e-6)
    # the path is at most sqrt(d) pi^2/6 long, so that every coordinate stays beyond 50 - 2.9 - ...: gradient 2/52 each
    yield control("steps that can be summed", at_most("gradient norm at the end", short, 1e-2))
    yield control("a constant step of 2.5/L", at_most("gradient norm at the end", fixed, 1e-2))


@claim(
    rows=("M17.16",),
    erratum="Theorem 17.16 omits that the objective is bounded below; the identity on the line satisfies all printed "
    "premises and has gradient 1 everywhere.",
)
def convergence_without_lower_bound(key, *, steps: Count = 2000):
    r"""As printed: with a Lipschitz, bounded gradient and Robbins-Monro steps the gradient tends to zero.

    Premises as printed: $\nabla\Lambda$ Lipschitz, $\|\nabla\Lambda\|\le L_1$, $\sum\eta_k=\infty$,
    $\sum\eta_k^2<\infty$; then "$\lim\Lambda(\theta_k)$ exists, and $\lim\|\nabla\Lambda(\theta_k)\|=0$".
    $\Lambda(\theta)=\theta$ has them all; over seven numbers of steps the gradient does not fall, and
    $\Lambda(\theta_k)$ falls by $\ln2$ with every doubling. Corrected: if $\Lambda$ is also bounded below, as is
    $\ln(1+\theta^2)$ with the same steps and start, both limits exist.
    """
    start = jax.random.normal(key, ())
    schedule = optax.sgd(lambda k: 1.0 / (k + 1))
    line = minimize(Problem(lambda theta: theta, (), jnp.zeros(())), schedule, steps=steps, start=start)
    bounded = minimize(log_squares(start[None]), schedule, steps=steps)
    k = steps // 2 ** np.arange(7)[::-1]
    # near the minimum the distance is multiplied by 1 - 2/k: it falls like the inverse square
    name = "gradient norm, seven numbers of steps"
    yield rate(f"bounded below: {name}", k, bounded.gradient_norm[k], -2.0, tolerance=0.2, along="steps")
    yield at_most(
        "bounded below: change of the value in the last doubling", bounded.value[k[-2]] - bounded.value[-1], 1e-4
    )
    yield printed(
        rate(f"the identity: {name}", k, line.gradient_norm[k], -0.1, tolerance=0.05, side="at most", along="steps")
    )
    falls = line.value[k[:-1]] - line.value[k[1:]]
    yield printed(at_most("the identity: change of the value in each doubling", falls, 1e-4, x=k[1:], along="steps"))


@claim(rows=("M17.22",))
def telescoping(key, *, dim: Size = 4, steps: Count = 2000):
    r"""If gradient descent converges the gradients vanish, and the iterates are the sum of the gradients.

    $\theta_k=\theta_0-\eta\sum_{i<k}\nabla f(\theta_i)$: if $\theta_k\to\theta$ then $\nabla f(\theta_k)=(\theta_k-
    \theta_{k+1})/\eta\to0$, and if the series converges so does $\theta_k$. So on least squares with fewer equations
    than unknowns the gradients along the path sum to $\frac1\eta$ times the start less the solution nearest to it,
    known from the pseudo-inverse, and $\|\nabla
    f(\theta_k)\|\le\frac1\eta(\|\theta_k-\theta\|+\|\theta_{k+1}-\theta\|)$. The converse of the first fails: on
    $e^{-\theta}$ the gradient vanishes and $\theta_k\ge\ln(1+\eta k)+\theta_0$ for $\theta_0=0$ goes to infinity.
    """

    @jax.jit
    def measure(key):
        turn_key, y_key, start_key = jax.random.split(key, 3)
        # half as many equations as unknowns, with singular values from 1 to 1/2
        rows = (
            jnp.linalg.qr(jax.random.normal(turn_key, (dim, dim // 2)))[0].T * jnp.linspace(1.0, 0.5, dim // 2)[:, None]
        )
        y, start = jax.random.normal(y_key, (dim // 2,)), jax.random.normal(start_key, (dim,))
        p = least_squares(rows, y)
        path = minimize(p, optax.sgd(1 / p.L), steps=steps, start=start)
        total = jax.vmap(p.gradient)(path.theta).sum(0)
        inverse = jnp.linalg.pinv(rows)
        nearest = start + inverse @ (y - rows @ start)
        away = minimize(Problem(lambda t: jnp.exp(-t), (), jnp.zeros(())), optax.sgd(1.0), steps=steps)
        distance = jnp.linalg.norm(path.theta - nearest, axis=1)
        return total, p.L * (start - nearest), p.L * distance, path.gradient_norm, away.theta, away.gradient_norm

    total, predicted, distance, norms, away, away_norm = measure(key)
    # the factor of the slowest direction is 3/4: after 2000 steps nothing but rounding is left, of 2000 terms
    yield equal("sum of all gradients along the path", total, predicted, rtol=0.0, atol=1e-11)
    yield at_most("gradient against the distances that are left", norms[:-1], distance[:-1] + distance[1:], atol=1e-13)
    yield at_most("distance to the limit at the end", distance[-1], 1e-11)
    k = jnp.arange(1, steps + 1)
    yield at_most("the exponential: gradient norm vanishes", away_norm[1:], 1.0 / k, x=k, along="iteration")
    yield at_least("the exponential: the iterates do not converge", away[1:], jnp.log(1.0 + k), x=k, along="iteration")
    half = steps // 2
    yield at_most("distance to the limit in the middle", distance[half], 1e-11)
    yield control(
        "gradients whose sum does not converge, those of the exponential",
        at_most("distance of the middle to the end", away[-1] - away[half], 1e-11),
    )
