"""The limit of wide Q-networks: an equation for the values, and when it finds them (M, Theorems 21.6 and 21.7)."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.dynamics import draw_shallow, limit_kernel
from corollary.evidence import Count, Size, at_most, claim, control, equal, monotone, rate
from corollary.reinforcement import FiniteMDP, q_limit, q_network_sgd, state_action_pairs, stationary_law

ETA = 2.0
UNIFORM = np.full((3, 2, 3), 1 / 3)


def _pairs(key, actions=2):
    """Three states at right angles, and as many actions: kernels with the same eigenvalues for every key."""
    return state_action_pairs(1.5 * jax.random.orthogonal(key, 3), 1.5 * jnp.eye(actions))


def _rewards(key, shape):
    r = jax.random.normal(key, shape)
    return r * jnp.sqrt(r.size / jnp.sum(r**2))


def _moves(key, actions=2):
    """A law of the next state that forgets half of the time where it was: all chains mix about equally fast."""
    return (jax.random.dirichlet(key, jnp.ones(3), (3, actions)) + 1 / 3) / 2


def _rms(a, axis):
    return jnp.sqrt(jnp.mean(a**2, axis=axis))


@claim(rows=("M21.20", "M21.21", "M21.26"), full={"narrowest": 64, "widest": 1024})
def limit_of_q_learning(key, *, narrowest: Size = 16, widest: Size = 128, repetitions: Count = 200):
    r"""Q-learning with a wide network along one Markov chain follows an equation, with an error of order 1/sqrt(N).

    $Q(\xi)=N^{-1/2}\sum_nC^n\sigma(W^n\cdot\xi)$, $\xi=(x,a)$, finitely many states and actions, $\sigma$ smooth and
    bounded, $(C^n,W^n)$ independent from $\mu_0$ with mean zero, $C$ bounded, rewards bounded, uniform actions, states
    that form an irreducible chain with the stationary law $\pi$, rate $\eta/N$. Then $h_t=Q_{\lfloor Nt\rfloor}$
    converges in law on $[0,T]$ to $\dot
    h_t(\xi)=\eta\sum_{\xi'}\pi(\xi')A_{\xi,\xi'}\big(r(\xi')+\beta\sum_z\max_{a}h_t(z,a) p(z|\xi')-h_t(\xi')\big)$ with
    $A$ the kernel of $\mu_0$. Each run here sees one path of the chain. Started from the realised $h_0$ the error is of
    the order $N^{-1/2}$, also the largest over $t\le T$. On a chain that stays where it begins the error does not fall.
    """
    widths, horizon, parts = np.round(np.geomspace(narrowest, widest, 7)), 2, 4

    @jax.jit
    def measure(key, stay):
        pair_key, p_key, r_key, run_key = jax.random.split(key, 4)
        pairs = _pairs(pair_key)
        p = stay * jnp.eye(3)[:, None] + (1 - stay) * _moves(p_key)
        mdp = FiniteMDP(p, _rewards(r_key, (3, 2)), 0.6)

        def run(key, width):
            net_key, path_key = jax.random.split(key)
            network = draw_shallow(widest, 5, key=net_key, width=width)
            path = mdp.simulate(jnp.full((3, 2), 0.5), widest * horizon, key=path_key)
            steps = jnp.round(width * horizon * jnp.arange(parts + 1) / parts).astype(int)
            return q_network_sgd(network, pairs, mdp, path, ETA, steps)[0]

        def away(a):
            keys, width = a
            seen = jax.vmap(lambda k: run(k, width))(keys)
            times = horizon * jnp.arange(parts + 1) / parts
            kernel = limit_kernel(pairs.reshape(6, 5))
            return seen - jax.vmap(lambda h: q_limit(h, kernel, mdp, ETA, times))(seen[:, 0])

        keys = jax.random.split(run_key, (len(widths), repetitions))
        return jax.lax.map(away, (keys, jnp.asarray(widths)))

    away = measure(key, 0.0)
    # 200 runs of six pairs give each root mean square to 4 %, the slope over a factor 8 of widths to 0.02 (over more
    # to less) and its interval (five degrees of freedom) to 0.08; the next order, 1/N, is worth as much again
    fits = {"tolerance": 0.2, "along": "width"}
    yield rate("error at the end", widths, _rms(away[:, :, -1], (1, 2, 3)), -0.5, **fits)
    largest = jnp.max(jnp.abs(away), (2, 3, 4))
    yield rate("largest error on the way", widths, _rms(largest, 1), -0.5, **fits)
    away = measure(key, 1.0)
    yield control(
        "an irreducible chain: here it stays where it begins",
        rate("error at the end", widths, _rms(away[:, :, -1], (1, 2, 3)), -0.5, **fits),
    )


def _along(start, kernel, mdp, times, substeps, policy=None):
    r"""The path from `start`, with ψ = h - V, Z = ψ·A⁻¹ψ/2, its slope, and π·ψ² at each of `times`."""
    value = mdp.policy_iteration().q
    path = q_limit(start, kernel, mdp, ETA, times, policy=policy, substeps=substeps)
    law = stationary_law(mdp, policy)

    def looked_at(h):
        # how the solution from h begins: the slope of one short step of the integrator
        def onward(t):
            return q_limit(h, kernel, mdp, ETA, t[None], policy=policy, substeps=1)[0]

        _, velocity = jax.jvp(onward, (jnp.zeros(()),), (jnp.ones(()),))
        psi = h - value
        solved = jnp.linalg.solve(kernel, psi.ravel())
        return psi, psi.ravel() @ solved / 2, velocity.ravel() @ solved, jnp.sum(law * psi**2)

    return jax.lax.map(looked_at, path)


@claim(rows=("M21.27",))
def converges_for_small_discounts(key, *, problems: Size = 10):
    r"""Below the discount 2/(1+|A|) the limit of Q-learning converges to the values, with an energy that always falls.

    Uniform actions, a positive definite kernel $A$, $\psi=h-V$ with $V$ the solution of Bellman's equation,
    $Z=\frac12\psi\cdot A^{-1}\psi$: $\dot Z\le\eta\big(-1+\frac{1+|A|}2\beta\big)\sum_\xi\pi(\xi)\psi(\xi)^2$ at every
    time. So for $\beta<\frac2{1+|A|}$, $Z_t\le Z_0e^{-2\eta\delta\pi_{\min}\lambda_{\min}(A)t}$ with
    $\delta=1-\frac{1+|A|}2\beta$, and $h_t\to V$. Here $\beta$ is 0.95 of the threshold, for two and for three actions.
    If an action is drawn one time in twenty, the inequality with $|A|$ fails (it holds with the largest
    $1/\lambda(a|x)$ in its place). Beyond the threshold the energy may grow: one state, two actions, features that are
    nearly one, $\beta=0.95$. (M's proof drops $\eta$.)
    """

    def measure(actions):
        @jax.jit
        def found(key):
            def one(key):
                pair_key, p_key, r_key, start_key = jax.random.split(key, 4)
                kernel = limit_kernel(_pairs(pair_key, actions).reshape(3 * actions, -1))
                beta = 0.95 * 2 / (1 + actions)
                mdp = FiniteMDP(_moves(p_key, actions), _rewards(r_key, (3, actions)), beta)
                start = mdp.policy_iteration().q + jax.random.normal(start_key, (3, actions))
                times = jnp.linspace(0, 20, 41)
                _, energy, slope, square = _along(start, kernel, mdp, times, 20)
                least = jnp.linalg.eigvalsh(kernel)[0] * jnp.min(stationary_law(mdp))
                end = q_limit(start, kernel, mdp, ETA, jnp.array([4000.0]), substeps=8000)[0]
                return end - mdp.policy_iteration().q, energy, slope, square, least * times

            return jax.lax.map(one, jax.random.split(key, problems))

        return found(key)

    for actions in (2, 3):
        error, energy, slope, square, exponent = measure(actions)
        delta = 1 - (1 + actions) / 2 * 0.95 * 2 / (1 + actions)
        name = f"{actions} actions: "
        # the slope comes from solving with the kernel, of condition 1e3: to 1e-12 of the energy that was there at first
        rounding = {"rtol": 0, "atol": 1e-12 * float(energy.max())}
        yield at_most(name + "slope of the energy", slope, -ETA * delta * square, **rounding)
        yield monotone(name + "energy over time", energy, "decreasing", atol=rounding["atol"])
        bound = energy[:, :1] * jnp.exp(-2 * ETA * delta * exponent)
        yield at_most(name + "energy", energy, bound, **rounding)
        yield equal(name + "distance from the values at last", error, 0.0, atol=1e-6)

    @jax.jit
    def broken(kernel):
        def path(beta, r, start, policy, times):
            mdp = FiniteMDP(jnp.ones((1, 2, 1)), r, beta)
            return _along(start, kernel, mdp, times, 200, policy)

        seldom = path(0.6, jnp.zeros((1, 2)), jnp.array([[1.0, 0.2]]), jnp.array([[0.05, 0.95]]), jnp.zeros(1))
        start = jnp.array([[20.0, 19.0]]) + jnp.array([[1.0, np.sqrt(2) - 1]])
        half = jnp.full((1, 2), 0.5)
        return seldom, path(0.95, jnp.array([[1.0, 0.0]]), start, half, jnp.linspace(0, 500, 101))

    xi = 0.3 * np.array([[1.0, 0.0], [np.sqrt(2) - 1, 0.05]])
    (_, _, slope, square), (_, energy, _, _) = broken(limit_kernel(xi))
    yield control(
        "uniform actions: here one in twenty",
        at_most("slope of the energy", slope, ETA * (-1 + 1.5 * 0.6) * square),
    )
    yield control("β < 2/(1+|A|): here 0.95", monotone("energy over time", energy, "decreasing"))


@claim(rows=("M21.30",), no_control="a finite problem has no premise to break: the equation is always Lipschitz")
def one_solution(key, *, problems: Size = 20):
    r"""The limit equation has one solution: two of them part, and meet, no faster than its Lipschitz constant allows.

    With $L=\eta\|A\operatorname{diag}\pi\|(1+\beta\sqrt{|X||A|})$, $e^{-Lt}\|h_0-g_0\|\le\|h_t-g_t\|\le
    e^{Lt}\|h_0-g_0\|$; for $\beta=0$ and a difference along the first eigenvector of $A\operatorname{diag}\pi$ the
    lower bound is attained. The maximum over actions changes by no more than its arguments, and by as much if all are
    moved alike.
    """
    times = np.array([0.05, 0.1, 0.2, 0.4, 0.8])

    @jax.jit
    def measure(key):
        def one(key):
            pair_key, p_key, r_key, start_key = jax.random.split(key, 4)
            kernel, r = limit_kernel(_pairs(pair_key).reshape(6, -1)), _rewards(r_key, (3, 2))
            law = jnp.full((3, 2), 1 / 6)
            starts = jax.random.normal(start_key, (2, 3, 2))
            flat = FiniteMDP(UNIFORM, r, 0.0)  # whose stationary law is uniform
            _, vectors = jnp.linalg.eigh(kernel)

            def apart(mdp, first, second):
                a, b = (q_limit(h, kernel, mdp, ETA, times) for h in (first, second))
                return jnp.linalg.norm((a - b).reshape(len(times), -1), axis=1) / jnp.linalg.norm(first - second)

            mdp = FiniteMDP(_moves(p_key), r, 0.9)
            law = stationary_law(mdp)
            size = ETA * jnp.linalg.norm(kernel * law.ravel(), 2)
            size0 = ETA * jnp.linalg.norm(kernel / 6, 2)
            first = apart(flat, starts[0], starts[0] + vectors[:, -1].reshape(3, 2))
            tops = jnp.abs(starts[0].max(1) - starts[1].max(1)), jnp.abs(starts[0] - starts[1]).max(1)
            moved = (starts[0] + 0.7).max(1) - starts[0].max(1)
            return apart(mdp, *starts), size, first, size0, tops, moved

        return jax.lax.map(one, jax.random.split(key, problems))

    apart, size, first, size0, (tops, entries), moved = measure(key)
    exponent = size[:, None] * (1 + 0.9 * np.sqrt(6)) * times
    yield at_most("distance of two solutions", apart, jnp.exp(exponent))
    yield at_most("how close they may come", jnp.exp(-exponent), apart)
    # 20 steps of the fourth order to each time, at most 0.02 times the largest eigenvalue, about 2, each
    yield equal("along the first eigenvector", first, jnp.exp(-size0[:, None] * times), rtol=1e-6)
    yield at_most("change of the maximum", tops, entries)
    yield equal("change of the maximum when all move alike", moved, 0.7, rtol=1e-12)


@claim(rows=("M21.34",))
def finite_horizon(key, *, repetitions: Count = 200):
    r"""With one network per time Q-learning has a limit too, which finds the values of backward induction.

    Times $j=0,\dots,J-1$, a network for each, the target $r+\beta\max_{a'}Q(j+1,x',a')$, and the final reward after the
    last. From the realised start the values at time $t$ of networks of width $N$ are within the order $N^{-1/2}$ of
    $\dot h^j=\eta A\big(\pi\odot(r+\beta P\max h^{j+1}-h^j)\big)$. Each time learns from the next one alone, so that
    $h\to V$ of backward induction for every discount: also on the one state with two actions on which an infinite
    horizon with $\beta=0.95$ has no stable values. If the kernel is singular, as with an action encoded as the opposite
    of the other, the limit need not find them.
    """
    widths = np.array([16.0, 24, 32, 48, 64, 96])

    @jax.jit
    def measure(key):
        pair_key, p_key, r_key, run_key = jax.random.split(key, 4)
        pairs = _pairs(pair_key)
        mdp, final = FiniteMDP(_moves(p_key), _rewards(r_key, (3, 2)), 0.9), jnp.array([1.0, -1.0, 0.5])
        options = {"horizon": 2, "final": final}

        def run(key, width):
            net_key, path_key = jax.random.split(key)
            networks = jax.vmap(lambda k: draw_shallow(96, 5, key=k, width=width))(jax.random.split(net_key))
            path = mdp.simulate(jnp.full((3, 2), 0.5), 96, key=path_key)
            steps = jnp.round(width * jnp.arange(2)).astype(int)
            return q_network_sgd(networks, pairs, mdp, path, ETA, steps, **options)[0]

        def away(a):
            seen = jax.vmap(lambda k: run(k, a[1]))(a[0])
            kernel = limit_kernel(pairs.reshape(6, 5))
            ends = jax.vmap(lambda h: q_limit(h, kernel, mdp, ETA, jnp.ones(1), **options)[0])(seen[:, 0])
            return seen[:, 1] - ends

        keys = jax.random.split(run_key, (len(widths), repetitions))
        return jax.lax.map(away, (keys, jnp.asarray(widths)))

    @jax.jit
    def one_state(key, xi):
        mdp = FiniteMDP(jnp.ones((1, 2, 1)), jnp.array([[1.0, 0.0]]), 0.95)
        start = jax.random.normal(key, (6, 1, 2))
        # the slowest direction of the kernel has 6.3e-4 of π A / 2 a unit of time: e^(-25) at the end
        run = q_limit(start, limit_kernel(xi), mdp, 20.0, jnp.array([4000.0]), horizon=6, substeps=20_000)
        return run[0], mdp.backward_induction(6)[:6]

    # 200 runs of twelve values: each root mean square to 4 %, the slope over a factor 6 of widths to 0.03, its interval
    # (four degrees of freedom) to 0.12
    yield rate("error at the end", widths, _rms(measure(key), (1, 2, 3, 4)), -0.5, tolerance=0.25, along="width")
    xi = 0.3 * np.array([[1.0, 0.0], [np.sqrt(2) - 1, 0.05]])
    ends, values = one_state(key, xi)
    yield equal("one state: values of all times", ends, values, rtol=0, atol=1e-6)
    ends, values = one_state(key, np.array([[0.3, 0.0], [-0.3, 0.0]]))
    yield control(
        "distinct directions: here opposite ones",
        equal("one state: values of all times", ends, values, rtol=0, atol=1e-6),
    )
