"""RMSProp: a weighted average of squared gradients, what it forgets, and where a constant step ends."""

import jax
import jax.numpy as jnp
import numpy as np

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
    estimate,
    monotone,
    printed,
    rate,
)
from corollary.optimization import (
    adagrad,
    adam,
    minimize,
    moving_average_weights,
    quadratic,
    random_quadratic,
    rmsprop,
    rmsprop_amplitude,
)


def _follow(method, gradient, start, steps, state_of=("nu",)):
    """Iterates (steps + 1, ...) and accumulators (steps, ...), RMSProp's or others, for `gradient(theta, k)`."""

    def advance(carry, k):
        theta, state = carry
        step, state = method.update(gradient(theta, k), state)
        kept = tuple(getattr(state[0], name, None) for name in state_of)
        return (theta + step, state), (theta + step, kept[0] if len(kept) == 1 else kept)

    _, (path, sums) = jax.lax.scan(advance, (start, method.init(start)), jnp.arange(steps))
    return jnp.concatenate([start[None], path]), sums


@claim(rows=("M18.28", "M18.29", "T02.33"))
def weighted_average(key, *, dim: Size = 5, steps: Count = 80, delta: Probability = 0.9, eta: Positive = 0.05):
    r"""RMSProp divides by the root of a weighted average of all squared gradients so far.

    $u_{k+1}=\delta u_k+(1-\delta)\,g_k\odot g_k$, $\theta_{k+1}=\theta_k-\eta(\epsilon+u_{k+1})^{-1/2}\odot g_k$ with
    $g_k=\nabla f(\theta_k)$ gives $u_{k+1}=\delta^{k+1}u_0+(1-\delta)\sum_{j=0}^k\delta^{k-j}g_j\odot g_j$. The
    weights sum to one and grow towards the present. This is the recursion of Optax; T's has $\epsilon$ beside the
    root. With $\epsilon=u_0=0$ the steps for $cf$ are those for $f$. Without the start the weights do not sum to
    one.
    """

    @jax.jit
    def measure(key):
        problem_key, u_key, c_key = jax.random.split(key, 3)
        problem = random_quadratic(dim, 30.0, key=problem_key)
        u = jax.random.uniform(u_key)
        c = 10 ** jax.random.uniform(c_key, (), minval=-3, maxval=3)

        def run(method):
            return _follow(method, lambda theta, k: problem.gradient(theta), problem.start, steps)

        def under(gradients):
            # the same gradients times c: along its own path an oscillation would amplify the rounding
            free = rmsprop(eta, delta=delta, eps=0.0)
            return _follow(free, lambda theta, k: gradients[k], problem.start, steps)

        path, sums = run(rmsprop(eta, delta=delta, eps=1e-3, initial=u))
        beside = run(rmsprop(eta, delta=delta, eps=1e-3, initial=u, eps_inside=False))
        gradient = jax.vmap(problem.gradient)
        g = gradient(path[:-1])
        return u, (path, sums, g), (*beside, gradient(beside[0][:-1])), under(g), under(c * g)

    u, (path, sums, g), (other, _, other_g), (plain, from_zero), (scaled, _) = measure(key)
    age = jnp.arange(steps)[:, None] - jnp.arange(steps)
    weights = jnp.where(age >= 0, (1 - delta) * delta ** jnp.maximum(age, 0), 0)
    old = delta ** jnp.arange(1, steps + 1)
    average = weights @ g**2 + u * old[:, None]
    yield equal("accumulator and weighted average", sums, average)
    ours = moving_average_weights(steps, delta)
    yield equal("weights of the last average", ours, weights[-1])
    yield equal("weights and start together", ours.sum() + delta**steps, 1.0, atol=1e-13)
    yield monotone("weights towards the present", ours, strict=True)
    yield equal("iterates from the average", path[1:], path[0] - eta * jnp.cumsum(g / jnp.sqrt(1e-3 + average), 0))
    divisor = jnp.sqrt(weights @ other_g**2 + u * old[:, None]) + 1e-3
    yield equal(
        "iterates with the offset beside the root", other[1:], other[0] - eta * jnp.cumsum(other_g / divisor, 0)
    )
    yield equal("way under a multiple of the gradients", scaled, plain)
    yield control("an accumulator that starts at 0", equal("accumulator and weighted average", from_zero, average))


@claim(
    rows=("M18.29", "M18.34"),
    erratum="The sums run over the iterates 0 to k: the gradient at iterate k+1 is not known when the average is made.",
)
def weighted_average_as_printed(key, *, dim: Size = 5, steps: Count = 40, delta: Probability = 0.9):
    r"""The accumulator of RMSProp averages the squared gradients at iterates 1 to k+1.

    As printed in 18.5.2 and, with the same indices, for both moments of ADAM in 18.5.3: $u_{k+1}=\delta^{k+1}u_0+
    (1-\delta)\sum_{j=1}^{k+1}\delta^{k+1-j}\nabla f(\theta_j)\odot\nabla f(\theta_j)$ where $u_{k+1}=\delta
    u_k+(1-\delta)\nabla f(\theta_k)\odot\nabla f(\theta_k)$. Corrected: $\sum_{j=0}^k\delta^{k-j}$, the iterates 0 to
    $k$.
    """

    @jax.jit
    def measure(key):
        problem = random_quadratic(dim, 30.0, key=key)

        def run(method, names):
            path, kept = _follow(method, lambda t, k: problem.gradient(t), problem.start, steps, names)
            return kept, jax.vmap(problem.gradient)(path)

        # one decay for both moments of Adam, so that one matrix of weights serves all three
        return run(rmsprop(0.05, delta=delta), ("nu",)), run(adam(0.05, delta1=delta, delta2=delta), ("mu", "nu"))

    (sums, g), ((first, second), slopes) = measure(key)
    age = jnp.arange(steps)[:, None] - jnp.arange(steps)
    weights = jnp.where(age >= 0, (1 - delta) * delta ** jnp.maximum(age, 0), 0)
    for name, kept, seen in (
        ("RMSProp", sums, g**2),
        ("Adam, first", first, slopes),
        ("Adam, second", second, slopes**2),
    ):
        yield equal(f"{name} moment, iterates 0 to k", kept, weights @ seen[:-1])
        yield printed(equal(f"{name} moment, iterates 1 to k + 1", kept, weights @ seen[1:]))


ETAS, DELTAS = (0.1, 0.01), (0.5, 0.9, 0.99)


def _bowl(eta, delta, eps, start, initial, steps):
    method = rmsprop(eta, delta=delta, eps=eps, initial=initial)
    return minimize(quadratic(jnp.ones(1), start[None]), method, steps=steps).theta[:, 0]


@claim(rows=("M18.30", "M18.39"))
def parabola_ends_in_a_two_cycle(key, *, steps: Count = 60_000):
    r"""RMSProp with a constant step does not converge on a parabola: it ends in a 2-cycle.

    $f=\frac12\theta^2$, $\theta_{k+1}=\theta_k\big(1-\frac\eta{\sqrt{\epsilon+u_{k+1}}}\big)$. As long as
    $\eta^2<u_j$ for all $j\le k$, $0<\theta_k\le\zeta^k\theta_0$ with $\zeta=\max_j(1-\eta u_j^{-1/2})$ ($\epsilon=0$);
    but $\theta_k\to0$ takes $u_k\to0$ along, so that the condition fails, and the iterates settle on
    $\pm\sqrt{\eta^2/4-\epsilon}$, where $1-\eta/\sqrt{\epsilon+\theta^2}=-1$. They converge to 0 exactly when
    $\eta<2\sqrt\epsilon$. A step that decreases restores convergence: the cycle follows $\eta_k/2$.
    """
    thresholds = jnp.array([1e-4, 2.6e-5, 2.4e-5, 1e-6])

    @jax.jit
    def measure(key):
        start_key, u_key = jax.random.split(key)
        start, u = jax.random.uniform(start_key, minval=0.5, maxval=2.0), jax.random.uniform(u_key, (), None, 1.0, 4.0)
        eta, delta = (a.ravel() for a in jnp.meshgrid(jnp.array(ETAS), jnp.array(DELTAS), indexing="ij"))
        eta = jnp.concatenate([eta, jnp.full(4, 0.01)])
        delta = jnp.concatenate([delta, jnp.full(4, 0.9)])
        eps = jnp.concatenate([jnp.zeros(6), thresholds])
        paths = jax.vmap(lambda e, d, s: _bowl(e, d, s, start, u, steps))(eta, delta, eps)
        falling = _bowl(lambda k: 0.1 / jnp.sqrt(1.0 + k), 0.9, 0.0, start, u, steps)
        # the accumulator of the second run, from the weighted average of its squared iterates
        early = paths[1, :200]
        age = jnp.arange(200)[:, None] - jnp.arange(200)
        sums = jnp.where(age >= 0, 0.1 * 0.9 ** jnp.maximum(age, 0), 0) @ early**2 + u * 0.9 ** jnp.arange(1, 201)
        return eta, eps, paths[:, -2:], falling[-2:], early, sums

    eta, eps, last, falling, early, sums = measure(key)
    predicted = rmsprop_amplitude(eta, eps)
    yield equal("size of the last iterate, no offset", jnp.abs(last[:6]), eta[:6, None] / 2, rtol=1e-10)
    yield equal("the last two are opposite", last[:6].sum(1), 0.0, atol=1e-12)
    yield equal("size of the last iterate, four offsets", jnp.abs(last[6:]), predicted[6:, None], rtol=1e-8)
    yield equal("step falling like one over the root of k", jnp.abs(falling), 0.05 / jnp.sqrt(steps), rtol=0.01)
    held = int(jnp.argmax(sums <= ETAS[0] ** 2))  # the first step that the conditional statement does not cover
    zeta = (1 - ETAS[0] / jnp.sqrt(sums[:held])).max()
    k = jnp.arange(2, held + 1)
    yield at_most("while u is above the squared step: iterates", early[k], zeta**k * early[0], x=k, along="iteration")
    yield at_most("while u is above the squared step: positive", -early[k], 0.0, x=k, along="iteration")
    yield control(
        "an offset beyond a quarter of the squared step",
        equal("size of the last iterate", jnp.abs(last[6]), eta[6] / 2, rtol=1e-10),
    )


@claim(
    rows=("M18.30",),
    erratum="The negation of convergence is wrong and the step is chosen after the path; it ends in a 2-cycle.",
)
def parabola_as_printed(key, *, steps: Count = 60_000):
    r"""RMSProp with a small constant step and a large start of its average converges on a parabola.

    As concluded in 18.5.2 for $f=\frac12\theta^2$, $\theta_0>0$: "if $u_0$ is sufficiently large and $\eta$ is
    sufficiently small, we will indeed have that $\eta^2<u_k$", and $\lim\theta_k=0$. With $u_0=100$ and four steps from
    0.1 down to 0.003 the accumulator falls below $\eta^2$ every time, and over the last six numbers of steps
    $|\theta_k|$ does not fall. Corrected: $|\theta_k|\to\frac\eta2$, so that it can be made small, and not 0, by the
    choice of $\eta$.
    """
    etas = jnp.array([0.1, 0.03, 0.01, 0.003])
    counts = steps // 10 * np.arange(5, 11)

    @jax.jit
    def measure(key):
        start = jax.random.uniform(key, minval=0.5, maxval=2.0)

        def run(eta):
            method = rmsprop(eta, delta=0.9, eps=0.0, initial=100.0)
            path, sums = _follow(method, lambda theta, k: theta, start, steps)
            return jnp.abs(path[counts]), sums.min() / eta**2

        return jax.vmap(run)(etas)

    size, least = measure(key)
    yield equal("size of the late iterates: half the step", size, etas[:, None] / 2, rtol=1e-8, x=counts, along="k")
    yield printed(at_least("smallest accumulator over the squared step", least, 1.0, x=etas, along="step"))
    for eta, sizes in zip(etas, size, strict=True):
        yield printed(
            rate(
                f"size of the late iterates, step {eta:g}",
                counts,
                sizes,
                -0.1,
                tolerance=0.05,
                side="at most",
                along="k",
            )
        )


@claim(rows=("M18.28", "M18.39"))
def forgets_a_burst(key, *, delta: Probability = 0.9, burst: Size = 10, runs: Size = 8000):
    r"""After a burst of large gradients RMSProp recovers its step, AdaGrad does not.

    When gradients have become negligible, $u_{k+1}=\delta u_k$, and the effective step $\eta/\sqrt u$ grows like
    $\delta^{-k/2}$, with a memory of $1/(1-\delta)$ steps. AdaGrad's sum never falls. Under independent gradients $g$
    the accumulator averages $\mathbb Eg^2$: the step is about $\eta g/\sqrt{\mathbb Eg^2}$.
    """
    k = jnp.arange(60)

    @jax.jit
    def measure(key):
        large_key, noise_key = jax.random.split(key)
        large = 100 * (1 + jax.random.uniform(large_key, (burst,)))
        gradients = jnp.concatenate([large, jnp.full(60, 1e-9)])

        def effective(method):
            def see(state, g):
                step, state = method.update(g, state)
                return state, -step / g

            return jax.lax.scan(see, method.init(gradients[0]), gradients)[1]

        noise = 2.0 * jax.random.normal(noise_key, (200, runs))
        method = rmsprop(1.0, delta=delta, eps=0.0)
        _, sums = _follow(method, lambda theta, k: noise[k], jnp.zeros(runs), 200)
        return effective(method)[burst:], effective(adagrad(1.0, eps=0.0))[burst:], sums[-1]

    recovered, stuck, sums = measure(key)
    # the small gradients add a share of 1e-22 at first, and 1e-19 at the end
    predicted = recovered[0] * delta ** (-k / 2)
    yield equal("effective step after the burst", recovered, predicted, x=k, along="step")
    # the weight of the start after 200 steps is delta^200; u varies by 1.3, so that the interval is 0.07 wide
    yield estimate("accumulator under noise of variance 4", sums, 4.0, wrong=4.2)
    yield control(
        "a sum that does not forget, AdaGrad's",
        equal("effective step after the burst", stuck, stuck[0] * delta ** (-k / 2), x=k),
    )


@claim(rows=("M18.39",))
def follows_a_moving_minimum(
    key, *, steps: Count = 3000, eta: Positive = 0.1, delta: Probability = 0.9, runs: Size = 50
):
    r"""RMSProp follows a minimum that moves, AdaGrad falls behind.

    Let the minimum of $f_k(\theta)=\frac12(\theta-c_k)^2$ move by $v<\eta$ a step. RMSProp without offset ($u_0=0$)
    stays within $\max\big\{|\theta_0-c_0|,\ \frac\eta{\sqrt{1-\delta}}+v,\ \frac v{1-v/\eta}\big\}$ of it for ever:
    at a distance that has not been exceeded before it moves by at least $\eta$, and in no step by more than
    $\eta/\sqrt{1-\delta}$. AdaGrad's steps fall like $k^{-1/2}$: it loses the minimum.
    """

    @jax.jit
    def measure(key):
        v_key, start_key = jax.random.split(key)
        v = eta * jax.random.uniform(v_key, (runs,), minval=0.2, maxval=0.6)
        start = jax.random.normal(start_key, (runs,))

        def errors(method):
            path, _ = _follow(method, lambda theta, k: theta - v * k, start, steps)
            return jnp.abs(path[:-1] - v * jnp.arange(steps)[:, None])[1:]

        bound = jnp.maximum(jnp.maximum(jnp.abs(start), eta / jnp.sqrt(1 - delta) + v), v / (1 - v / eta))
        return errors(rmsprop(eta, delta=delta, eps=0.0)).T, errors(adagrad(eta, eps=0.0)).T, bound[:, None]

    kept, lost, bound = measure(key)
    k = jnp.arange(1, steps)
    shown = k % 10 == 0
    yield at_most("distance from the minimum", kept, bound, x=k, along="step")
    yield control(
        "a sum that does not forget, AdaGrad's",
        at_most("distance from the minimum", lost[:, shown], bound, x=k[shown], along="step"),
    )
