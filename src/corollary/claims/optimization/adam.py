"""Adam and AdaMax: two moving averages, their bias, and how long a step can be."""

import jax
import jax.numpy as jnp
import optax

from corollary.evidence import Count, Positive, Size, at_least, at_most, claim, control, equal, estimate, printed
from corollary.optimization import (
    adam,
    adamax,
    amsgrad,
    exponential_moving_average,
    minimize,
    random_quadratic,
    rates,
    rmsprop,
)

DELTA1, DELTA2 = 0.9, 0.999


def _steps_under(method, gradients):
    """What `method` does with a given sequence of gradients (k, ...), and its inner states."""

    def see(state, g):
        step, state = method.update(g, state)
        return state, (step, state[0])

    return jax.lax.scan(see, method.init(gradients[0]), gradients)[1]


def _weights(steps, delta):
    """Row k holds the weights of the gradients 0 to k in the average after k + 1 of them."""
    age = jnp.arange(steps)[:, None] - jnp.arange(steps)
    return jnp.where(age >= 0, (1 - delta) * delta ** jnp.maximum(age, 0), 0)


@claim(rows=("M18.34", "E03.15", "T02.33"))
def two_moving_averages(key, *, dim: Size = 5, steps: Count = 60, eta: Positive = 0.01):
    r"""Adam steps along an averaged gradient, divided by the root of the averaged squares.

    $m_{k+1}=\delta_1m_k+(1-\delta_1)g_k$, $u_{k+1}=\delta_2u_k+(1-\delta_2)g_k^{\odot2}$, $m_0=u_0=0$,
    $\theta_{k+1}=\theta_k-\eta\,\hat m/\sqrt{\hat u+\epsilon}$ with $\hat m=\frac{m_{k+1}}{1-\delta_1^{k+1}}$,
    $\hat u=\frac{u_{k+1}}{1-\delta_2^{k+1}}$ (M), or with $\sqrt{\hat u}+\epsilon$ (Kingma and Ba, and E, without
    correction): $m_{k+1}=(1-\delta_1)\sum_{i\le k}\delta_1^{k-i}g_i$ and $u$ likewise. A constant gradient makes every
    step $\eta g/\sqrt{g^2+\epsilon}$; without the correction the first is $\frac{1-\delta_1}{\sqrt{1-\delta_2}}$
    times as long, 3.16 at 0.9 and 0.999. With $\epsilon=0$ all is free of scale. With $\delta_1=0$ and no correction
    it is RMSProp. Inside the root $\epsilon=10^{-8}$ silences gradients below $10^{-4}$, beside it those below
    $10^{-8}$.
    """
    kinds = {"M": (True, True), "Kingma and Ba": (False, True), "E": (False, False)}

    @jax.jit
    def measure(key):
        problem_key, g_key, c_key = jax.random.split(key, 3)
        problem = random_quadratic(dim, 30.0, key=problem_key)
        paths = {}
        for name, (inside, corrected) in kinds.items():
            method = adam(eta, eps=1e-3, eps_inside=inside, bias_correction=corrected)
            path = minimize(problem, method, steps=steps).theta
            paths[name] = path, jax.vmap(problem.gradient)(path[:-1])
        g = jax.random.normal(g_key, (steps, dim))
        c = 10 ** jax.random.uniform(c_key, (), minval=-3, maxval=3)
        free = adam(eta, eps=0.0)
        constant = jnp.broadcast_to(g[0], g.shape)
        tiny = jnp.full((1, 1), 1e-6)
        return paths, {
            "plain": _steps_under(free, g)[0],
            "scaled": _steps_under(free, c * g)[0],
            "constant": _steps_under(adam(eta, eps=1e-3), constant)[0],
            "first": g[0],
            "biased": _steps_under(adam(eta, eps=0.0, bias_correction=False), constant)[0],
            "no momentum": _steps_under(adam(eta, delta1=0.0, eps=1e-3, bias_correction=False), g)[0],
            "RMSProp": _steps_under(rmsprop(eta, delta=DELTA2, eps=1e-3), g)[0],
            "tiny": [_steps_under(adam(eta, eps_inside=inside), tiny)[0][0, 0] for inside in (True, False)],
        }

    paths, found = measure(key)
    first, second = _weights(steps, DELTA1), _weights(steps, DELTA2)
    for name, (inside, corrected) in kinds.items():
        path, g = paths[name]
        m, u = first @ g, second @ g**2
        if corrected:
            m, u = m / first.sum(1, keepdims=True), u / second.sum(1, keepdims=True)
        steps_taken = eta * m / (jnp.sqrt(u + 1e-3) if inside else jnp.sqrt(u) + 1e-3)
        yield equal(f"iterates from the weighted sums: {name}", path[1:], path[0] - jnp.cumsum(steps_taken, 0))
    g = found["first"]
    yield equal("constant gradient: every step", found["constant"], -eta * g / jnp.sqrt(g**2 + 1e-3))
    ratio = (1 - DELTA1) / jnp.sqrt(1 - DELTA2)
    yield equal("no correction: first step over the learning rate", jnp.abs(found["biased"][0]) / eta, ratio)
    yield equal("steps under a multiple of the gradients", found["scaled"], found["plain"])
    yield equal("no momentum, no correction: RMSProp", found["no momentum"], found["RMSProp"])
    inside, beside = found["tiny"]
    yield equal("gradient 1e-6, offset inside: step over the learning rate", -inside / eta, 1e-6 / jnp.sqrt(1.0001e-8))
    yield equal("gradient 1e-6, offset beside: step over the learning rate", -beside / eta, 1 / 1.01)
    yield control(
        "no bias correction",
        equal("constant gradient: every step", found["biased"], jnp.broadcast_to(-eta * jnp.sign(g), (steps, dim))),
    )


@claim(
    rows=("E03.15",),
    erratum="The learning rate is missing: the printed steps are about one in every coordinate.",
)
def update_without_learning_rate(key, *, dim: Size = 5, steps: Count = 40, eta: Positive = 0.01):
    r"""Adam subtracts the averaged gradient divided by the root of the averaged squares, with no other factor.

    As printed in 3.3: Adam is $\theta_{t+1}=\theta_t-\eta_t\odot g_t$ with $\eta_t=\frac1{\sqrt{\gamma_t}+\delta}$,
    $g_t$ and $\gamma_t$ the moving averages of the gradients and of their squares. Corrected, and as the text itself
    has it for AdaGrad a few lines before: $\eta_t=\frac\eta{\sqrt{\gamma_t}+\delta}$ with a learning rate $\eta$.
    """
    g = jax.random.normal(key, (steps, dim))
    taken = _steps_under(adam(eta, eps_inside=False, bias_correction=False), g)[0]
    direction = -(_weights(steps, DELTA1) @ g) / (jnp.sqrt(_weights(steps, DELTA2) @ g**2) + 1e-8)
    yield equal("steps of Adam, with the learning rate", taken, eta * direction)
    yield printed(equal("steps of Adam, as printed", taken, direction))


@claim(rows=("M18.34", "M18.36"))
def longest_steps(key, *, steps: Count = 2000, instances: Size = 100):
    r"""A step of Adam or AdaMax can be longer than the learning rate, by a known factor.

    With $\epsilon=0$, after $k$ gradients, in every coordinate, a step of Adam is at most
    $\eta\big(\sum_i\frac{w_{1,i}^2}{w_{2,i}}\big)^{1/2}$, where $w_1$, $w_2$ are the normalised weights of the two
    averages: Cauchy and Schwarz, attained at every $k$ by $g_i\propto(\delta_1/\delta_2)^{-i}$. For 0.9 and 0.999 this
    tends to 7.27. A step of AdaMax is at most
    $\eta\frac{(1-\delta_1)(1-(\delta_1/\delta_2)^k)}{(1-\delta_1/\delta_2)(1-\delta_1^k)}\le1.0091\,\eta$, if
    $\delta_1<\delta_2$, attained by $g_i\propto\delta_2^i$.
    """
    k = jnp.arange(1, steps + 1)

    @jax.jit
    def measure(key):
        heavy_key, sign_key = jax.random.split(key)
        sizes = jnp.exp(3 * jax.random.normal(heavy_key, (steps, instances)))
        random = sizes * jax.random.rademacher(sign_key, sizes.shape, float)
        i = k - 1.0
        worst_adam = (DELTA2 / DELTA1) ** i  # grows to 1e90, and its square to 1e180
        worst_adamax = DELTA2**i
        gradients = jnp.concatenate([random, worst_adam[:, None], worst_adamax[:, None]], axis=1)
        methods = (adam(1.0, eps=0.0), adamax(1.0), adam(1.0, eps=0.0, bias_correction=False))
        found = [jnp.abs(_steps_under(method, gradients)[0]).T for method in methods]
        slow = _steps_under(adamax(1.0, delta1=0.99, delta2=0.9), 0.9**i)[0]
        return *found, jnp.abs(slow)

    by_adam, by_adamax, biased, slow = measure(key)
    adam_bound = rates.adam.adam_step(DELTA1, DELTA2, k)
    adamax_bound = rates.adam.adamax_step(DELTA1, DELTA2, k)
    # the first step is the learning rate in any case
    yield at_most("Adam, random gradients", by_adam[:-2, 1:], adam_bound[1:], x=k[1:], along="step")
    yield equal("Adam, worst gradients", by_adam[-2], adam_bound, x=k, along="step")
    limit = (1 - DELTA1) / jnp.sqrt((1 - DELTA2) * (1 - DELTA1**2 / DELTA2))
    yield equal("Adam, limit of the bound", rates.adam.adam_step(DELTA1, DELTA2, 1e5), limit)
    yield at_most("AdaMax, random gradients", by_adamax[:-2, 1:], adamax_bound[1:], x=k[1:], along="step")
    yield equal("AdaMax, worst gradients", by_adamax[-1], adamax_bound, x=k, along="step")
    yield at_most("AdaMax, bound for all steps", adamax_bound, 1.0091, x=k, along="step")
    yield control(
        "no bias correction", at_most("Adam, random gradients", biased[:-2, 1:], adam_bound[1:], x=k[1:], along="step")
    )
    # beyond a few hundred steps the smallest gradients are no longer numbers of ours
    early = k <= 100
    yield control(
        "an average of the gradients that is longer than that of their sizes",
        at_most("AdaMax, worst gradients", slow[early], 1.0091, x=k[early], along="step"),
    )


@claim(rows=("M18.35",))
def bias_correction(key, *, runs: Size = 4000, mean: Positive = 1.0, sigma: Positive = 1.0):
    r"""Dividing by one minus the power of the decay makes Adam's moment estimates unbiased.

    If the first two moments of the gradients do not change along the way, $\mathbb Em_k=(1-\delta_1^k)\,\mathbb Eg$ and
    $\mathbb Eu_k=(1-\delta_2^k)\,\mathbb E[g\odot g]$, hence $\hat m_k$, $\hat u_k$ are unbiased. If the mean drifts,
    $\hat m_k$ lags behind.
    """
    early, all_k = jnp.array([1, 3, 10]), jnp.array([1, 10, 100, 1000])

    @jax.jit
    def measure(key):
        g = mean + sigma * jax.random.normal(key, (1000, runs))
        _, state = _steps_under(adam(1.0), g)
        drifting = g + 0.1 * jnp.arange(1, 1001.0)[:, None]
        _, drifted = _steps_under(adam(1.0), drifting)
        exact = exponential_moving_average(jnp.full(1000, 3.0), DELTA1, bias_correction=True)
        return (
            [state.mu[early - 1].T, state.nu[early - 1].T],
            [state.mu[all_k - 1].T / (1 - DELTA1**all_k), state.nu[all_k - 1].T / (1 - DELTA2**all_k)],
            drifted.mu[all_k - 1].T / (1 - DELTA1**all_k),
            exact,
        )

    (m, u), (m_hat, u_hat), drifted, exact = measure(key)
    square = mean**2 + sigma**2
    yield estimate("first moment after 1, 3, 10 gradients", m, (1 - DELTA1**early) * mean, wrong=mean)
    yield estimate("second moment after 1, 3, 10 gradients", u, (1 - DELTA2**early) * square, wrong=square)
    yield estimate("corrected first moment after 1 to 1000", m_hat, mean, wrong=0.8 * mean)
    yield estimate("corrected second moment after 1 to 1000", u_hat, square, wrong=0.7 * square)
    yield equal("constant gradients: exact", exact, 3.0)
    # at k the mean is mean + k/10; the first of the four is not late yet
    current = mean + 0.1 * all_k
    yield control(
        "a mean that drifts", estimate("corrected first moment", drifted[:, 1:], current[1:], wrong=current[1:] + 9)
    )


@claim(rows=("T02.33",))
def worst_point_of_a_convex_loss(key, *, cycles: Count = 3000, C: Positive = 3.0):
    r"""Adam can go to the worst point of a convex loss, for ever; AMSGrad does not.

    On $[-1,1]$ let $f_t(x)=Cx$ for $t\equiv1\pmod3$ and $-x$ otherwise, $C>2$: their mean is $\frac{C-2}3x$, the best
    point is $-1$. Adam with $\delta_1=0$, $\delta_2=\frac1{1+C^2}$ and steps $\eta/\sqrt t$, projected to the interval,
    ends at $+1$: it divides the rare large gradient by its own size, and has forgotten it when the small ones come.
    AMSGrad, which divides by the largest average so far, goes to $-1$. (The example of Reddi, Kale and Kumar for T's
    remark that several adaptive methods need not converge.)
    """

    @jax.jit
    def measure(key):
        start = jax.random.uniform(key, minval=-1.0, maxval=1.0)

        def schedule(count):
            return 0.5 / jnp.sqrt(1.0 + count)

        def follow(method):
            def advance(carry, t):
                x, state = carry
                step, state = method.update(jnp.where(t % 3 == 1, C, -1.0), state)
                x = jnp.clip(x + step, -1.0, 1.0)
                return (x, state), x

            return jax.lax.scan(advance, (start, method.init(start)), jnp.arange(1, 3 * cycles + 1))[1]

        decay = 1 / (1 + C**2)
        return (
            follow(adam(schedule, delta1=0.0, delta2=decay, eps=0.0, bias_correction=False)),
            follow(amsgrad(schedule, delta1=0.0, delta2=decay, eps=0.0)),
        )

    by_adam, by_amsgrad = measure(key)
    last = -300
    yield equal("Adam at the end of the last cycles", by_adam[2::3][last:], 1.0)
    # within a cycle AMSGrad moves by at most three of its last steps
    yield equal("AMSGrad in the last cycles", by_amsgrad[3 * last :], -1.0, atol=float(1.5 / jnp.sqrt(2.7 * cycles)))
    loss = jnp.where(jnp.arange(1, 3 * cycles + 1) % 3 == 1, C, -1.0)
    before = jnp.concatenate([by_adam[:1], by_adam[:-1]])
    yield at_least("Adam: mean regret in the last cycles", (loss * (before + 1))[3 * last :].mean(), 0.3 * (C - 2))
    yield control(
        "a divisor that does not forget, AMSGrad's", equal("end of the last cycles", by_amsgrad[2::3][last:], 1.0)
    )


@claim(rows=("M18.36",))
def adamax_recursion(key, *, dim: Size = 5, steps: Count = 60, eta: Positive = 0.01):
    r"""AdaMax divides by the largest decayed gradient so far.

    $u_{k+1}=\max\{\delta_2u_k,|g_k|\}$ by coordinate (Kingma and Ba) or with the one number $\|g_k\|_\infty$ (M),
    $\theta_{k+1}=\theta_k-\frac\eta{1-\delta_1^{k+1}}\frac{m_{k+1}}{u_{k+1}}$, $m_0=u_0=0$, so that $u_{k+1}=\max_{i\le
    k}\delta_2^{k-i}|g_i|$. The first form is Optax's. No offset is needed unless all gradients are zero. Under a
    constant gradient every step of the first is $\eta\,\mathrm{sign}(g)$, of the second $\eta g/\|g\|_\infty$.
    """

    @jax.jit
    def measure(key):
        problem_key, g_key = jax.random.split(key)
        problem = random_quadratic(dim, 30.0, key=problem_key)
        found = {}
        for mode in ("componentwise", "global"):
            path = minimize(problem, adamax(eta, mode=mode), steps=steps).theta
            found[mode] = path, jax.vmap(problem.gradient)(path[:-1])
        theirs = minimize(problem, optax.adamax(eta, eps=0.0), steps=steps).theta
        g = jax.random.normal(g_key, (dim,))
        constant = jnp.broadcast_to(g, (steps, dim))
        steady = [_steps_under(adamax(eta, mode=mode), constant)[0] for mode in found]
        return found, theirs, g, steady

    found, theirs, g, (each, together) = measure(key)
    age = jnp.arange(steps)[:, None] - jnp.arange(steps)
    decay = jnp.where(age >= 0, DELTA2 ** jnp.maximum(age, 0), 0)
    first = _weights(steps, DELTA1)
    for mode, (path, slopes) in found.items():
        size = jnp.abs(slopes) if mode == "componentwise" else jnp.abs(slopes).max(1, keepdims=True)
        u = (decay[:, :, None] * size).max(1)
        moved = jnp.cumsum(eta * (first @ slopes) / first.sum(1, keepdims=True) / u, 0)
        yield equal(f"iterates from the largest decayed gradients: {mode}", path[1:], path[0] - moved)
    yield equal("Optax", found["componentwise"][0], theirs)
    yield equal("constant gradient: by coordinate", each, jnp.broadcast_to(-eta * jnp.sign(g), each.shape))
    yield equal(
        "constant gradient: one divisor", together, jnp.broadcast_to(-eta * g / jnp.abs(g).max(), together.shape)
    )


@claim(
    rows=("M18.36",),
    erratum="The divisor has the index of the step before: at the first step it is the initial zero.",
)
def adamax_divisor_as_printed(key, *, dim: Size = 5):
    r"""AdaMax divides its step k+1 by the maximum with index k, which starts at zero.

    As printed in the summary of 18.5.4: $m_0=u_0=0$, $u_k=\max\{\delta_2u_{k-1},\|\nabla f(\theta_k)\|_\infty\}$ and
    $\theta_{k+1}=\theta_k-\eta\frac1{1-\delta_1^{k+1}}\frac{m_{k+1}}{u_k}$. The first step, $k=0$, would divide by
    $u_0=0$, and no step would see the gradient at $\theta_0$. Corrected: $u_{k+1}=\max\{\delta_2u_k,\|\nabla
    f(\theta_k)\|_\infty\}$ in the place of $u_k$. What AdaMax divides by is found from its steps.
    """
    g = jax.random.normal(key, (3, dim)) * jnp.array([[2.0], [1.0], [1.0]])  # at iterates 0, 1, 2
    size = jnp.abs(g).max(1)
    steps, states = _steps_under(adamax(1.0, mode="global"), g)
    count = jnp.arange(1, 4)
    divisors = jnp.abs(states.first[:, 0] / ((1 - DELTA1**count) * steps[:, 0]))
    at_k, after_k = [jnp.zeros(())], [size[0]]
    for k in (1, 2):
        at_k.append(jnp.maximum(DELTA2 * at_k[-1], size[k]))
        after_k.append(jnp.maximum(DELTA2 * after_k[-1], size[k]))
    yield equal("divisor of the steps 1, 2, 3, corrected", divisors, jnp.stack(after_k), x=count, along="step")
    yield printed(equal("divisor of the steps 1, 2, 3, as printed", divisors, jnp.stack(at_k), x=count, along="step"))
