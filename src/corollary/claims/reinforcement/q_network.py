"""Q-learning with wide networks before the limit: the special case of regression, and the steps of M's proof."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from corollary.dynamics import ScaledNetwork, draw_shallow, outer_weight_bound, shallow_sgd, tangent_kernel
from corollary.evidence import Size, at_most, claim, control, equal, rate
from corollary.reinforcement import FiniteMDP, q_network_sgd, state_action_pairs, stationary_law

WIDTHS = np.array([8, 16, 24, 32, 48, 64])
ETA, BETA, REPETITIONS = 2.0, 0.6, 200
# 200 runs give a root mean square or a mean to 5 %, hence a slope over these widths to 0.04, its interval (four degrees
# of freedom) to 0.15; the next order in 1/N, an eighth at the smallest width, counts for as much again
FITS = {"tolerance": 0.3, "fit": 0.85, "along": "width"}


@claim(rows=("M21.35",))
def regression_without_discount(key, *, units: Size = 32, steps: Size = 200):
    r"""Without discount Q-learning of a wide network is SGD on labels, bit for bit.

    $\beta=0$, labels $y=r(x,a)$, states drawn independently of each other and of the actions: the weights along
    Q-learning are those of SGD on $\frac12(y-m(\xi))^2$ with the rate $\eta N^{-2(1-\gamma)}$, for $\gamma=\frac12$
    that of Chapter 19. (M calls that chapter's regime that of feature learning, which is Chapter 20's, $\gamma=1$.)
    """

    @jax.jit
    def learned(key, beta, gamma):
        net_key, pair_key, r_key, path_key = jax.random.split(key, 4)
        network = draw_shallow(units, 5, key=net_key, gamma=gamma)
        pairs, r = jax.random.normal(pair_key, (4, 3, 5)), jax.random.normal(r_key, (4, 3))
        mdp = FiniteMDP(jnp.full((4, 3, 4), 0.25), r, beta)
        states, actions = mdp.simulate(jnp.full((4, 3), 1 / 3), steps, key=path_key)
        _, end = q_network_sgd(network, pairs, mdp, (states, actions), ETA)
        return (network, pairs, r, 3 * states[:-1] + actions), (end.outer, end.inner)

    @jax.jit
    def fitted(network, pairs, r, order):
        _, end = shallow_sgd(network, pairs.reshape(12, 5), r.ravel(), ETA, order)
        return end.outer, end.inner

    for gamma in (0.5, 1.0):
        given, ends = learned(key, 0.0, gamma)
        for name, ours, theirs in zip(("outer", "inner"), ends, fitted(*given), strict=True):
            yield equal(f"γ = {gamma}: {name} weights", ours, theirs, rtol=0, atol=0)
    given, ends = learned(key, 0.1, 0.5)
    yield control("β = 0: here 0.1", equal("outer weights", ends[0], fitted(*given)[0], rtol=0, atol=0))


class Run(NamedTuple):
    """Of one run up to time 1."""

    first_rest: jax.Array  # (pairs,): what the first step adds to the values beyond its first order
    fast_rest: jax.Array  # (pairs,): the same with the rate η in the place of η/N
    rest: jax.Array  # (pairs,): the sum of these over all steps
    noise: jax.Array  # (pairs,): R, the difference of the averages along the chain and over its law
    values: jax.Array  # (pairs,) at the nine times j/8
    outer: jax.Array  # the outer weights of four units at these times
    inner: jax.Array  # the mean length of an inner weight at these times
    pairing: jax.Array  # <sin(c) tanh(w_1), mu> at these times
    against_bound: jax.Array  # the largest outer weight over its bound, over units and steps
    largest: jax.Array  # the largest square of a value at these times
    missed: jax.Array  # the largest |Δ| over all steps
    speed: jax.Array  # the largest |Δ| times the largest entry of the kernel, over all steps


@partial(jax.jit, static_argnums=3)
def survey(key, stay, gamma, repetitions: int = REPETITIONS):
    """Runs (widths, repetitions, ...) on a chain that stays where it is with the probability `stay`."""
    pair_key, p_key, r_key, run_key = jax.random.split(key, 4)
    pairs = state_action_pairs(1.5 * jax.random.orthogonal(pair_key, 3), 1.5 * jnp.eye(2))
    flat = pairs.reshape(6, 5)
    moves = (jax.random.dirichlet(p_key, jnp.ones(3), (3, 2)) + 1 / 3) / 2
    # rewards of one size: all seeds are about equally hard
    mdp = FiniteMDP(stay * jnp.eye(3)[:, None] + (1 - stay) * moves, jax.random.rademacher(r_key, (3, 2), float), BETA)
    law, top = stationary_law(mdp).ravel(), int(WIDTHS[-1])

    def run(key, width):
        net_key, path_key = jax.random.split(key)
        network = draw_shallow(top, 5, key=net_key, gamma=gamma, width=width)
        present = jnp.arange(top) < width
        # |Δ| is at most |r| + (1 + β)|Q|: Chapter 19's bound with the rate η(1 + β) and labels |r|/(1 + β)
        bound = outer_weight_bound(network.outer * present, width, ETA * (1 + BETA), 1.0, label_bound=1 / (1 + BETA))
        states, actions = path = mdp.simulate(jnp.full((3, 2), 0.5), top, key=path_key)

        def observe(network):
            ratio = jnp.max(jnp.where(present, jnp.abs(network.outer) / bound, 0))
            inner = jnp.linalg.norm(network.inner, axis=1) @ present / width
            pairing = network.measure.pair(lambda c, w: jnp.sin(c) * jnp.tanh(w[0]))
            return network(flat), tangent_kernel(network, flat), network.outer[:4], inner, pairing, ratio

        (values, kernels, outer, inner, pairing, ratio), _ = q_network_sgd(
            network, pairs, mdp, path, ETA, observe=observe
        )
        fast, _ = q_network_sgd(network, pairs, mdp, (states[:2], actions[:1]), ETA * width, np.array([1]))
        best = values.reshape(-1, 3, 2).max(-1)
        at, later = 2 * states[:-1] + actions, jnp.take_along_axis(best[:-1], states[1:, None], 1)[:, 0]
        now = jnp.take_along_axis(values[:-1], at[:, None], 1)[:, 0]
        miss = mdp.r.ravel()[at] + BETA * later - now
        seen = miss[:, None] * jnp.take_along_axis(kernels[:-1], at[:, None, None], 2)[..., 0]
        mean = law * (mdp.r.ravel() + BETA * best @ mdp.p.reshape(6, 3).T - values)
        expected = jnp.einsum("tij,tj->ti", kernels, mean)[:-1]
        within = (jnp.arange(top) < width)[:, None]
        rests = jnp.diff(values, axis=0) - ETA / width * seen
        steps = jnp.round(width * jnp.arange(9) / 8).astype(int)
        return Run(
            rests[0],
            fast[0].ravel() - values[0] - ETA * seen[0],
            jnp.sum(jnp.where(within, rests, 0), 0),
            ETA / width * jnp.sum(jnp.where(within, seen - expected, 0), 0),
            values[steps],
            outer[steps],
            inner[steps],
            pairing[steps],
            jnp.max(jnp.where(jnp.arange(top + 1) <= width, ratio, 0)),
            jnp.max(values[steps] ** 2, 1),
            jnp.max(jnp.where(within[:, 0], jnp.abs(miss), 0)),
            jnp.max(jnp.where(within[:, 0], jnp.abs(miss) * jnp.max(jnp.abs(kernels[:-1]), (1, 2)), 0)),
        )

    keys = jax.random.split(run_key, (len(WIDTHS), repetitions))
    return jax.lax.map(lambda a: jax.vmap(lambda k: run(k, a[1]))(a[0]), (keys, jnp.asarray(WIDTHS, float)))


def _rms(a):
    return jnp.sqrt(jnp.mean(a**2, axis=tuple(range(1, a.ndim))))


def _mean(a):
    return jnp.mean(a, axis=tuple(range(1, a.ndim)))


@claim(rows=("M21.28",))
def prelimit_expansions(key):
    r"""A step of Q-learning moves the values by the kernel of the units; averages along the chain become stationary.

    $Q_{k+1}(\xi)=Q_k(\xi)+\frac\eta N\Delta_kK(\xi,\xi_k;\nu_k)+\mathcal O_p(N^{-3/2})$ with $\Delta_k=r(\xi_k)+
    \beta\max_{a'}Q_k(x_{k+1},a')-Q_k(\xi_k)$, and $h_t=h_0+\eta\int_0^t\sum_{\xi',z}\pi(\xi')p(z|\xi')
    (r(\xi')+\beta\max_{a'}h_s(z,a')-h_s(\xi'))K(\xi,\xi';\mu_s)ds+R_t+\mathcal O_p(N^{-1/2})$, where $R_t$, the
    difference of sums along the chain and means over its law, is of the order $N^{-1/2}$, larger for a chain that mixes
    more slowly. The remainders are smaller than M's bounds: of the order $N^{-3}$ in the first step, $N^{-2}$ in all.
    With the rate $\eta$ in the place of $\eta/N$ the first falls no faster than $N^{-1}$; on a chain that stays where
    it begins $R_t$ does not fall.
    """
    fast, slow, stuck = (survey(key, stay, 0.5) for stay in (0.0, 0.7, 1.0))
    yield rate("first step, as M bounds it", WIDTHS, _rms(fast.first_rest), -1.5, side="at most", **FITS)
    yield rate("all steps, as M bounds them", WIDTHS, _rms(fast.rest), -0.5, side="at most", **FITS)
    # quadratic in what is missing, hence with twice the spread
    yield rate("all steps", WIDTHS, _rms(fast.rest), -2.0, side="at most", **FITS | {"tolerance": 0.5})
    yield rate("chain against its law", WIDTHS, _rms(fast.noise), -0.5, **FITS)
    yield at_most("fast against slow mixing", _rms(fast.noise), _rms(slow.noise), x=WIDTHS, along="width")
    yield control(
        "the rate η/N: here η",
        rate("first step, as M bounds it", WIDTHS, _rms(fast.fast_rest), -1.5, side="at most", **FITS),
    )
    yield control(
        "an irreducible chain: here it stays where it begins",
        rate("chain against its law", WIDTHS, _rms(stuck.noise), -0.5, **FITS),
    )


@claim(rows=("M21.29",))
def regularity(key):
    r"""Along Q-learning weights move by N to the power -1/2 and values by the order of the time, at all widths.

    $\gamma=\frac12$, rate $\eta/N$, $|\sigma|\le1$: for $0\le t-s\le\delta$, $|C_t-C_s|\le\frac{C_o}{\sqrt N}\delta+
    C_oN^{-3/2}$ on every path with $C_o=\eta\max_k|\Delta_k|$, so that pairings $\langle f,\mu\rangle$ move by as much,
    and $|h_t-h_s|\le C_o\delta+\frac{C_o}N$ with $C_o=\eta\max_k|\Delta_k|\max|K|$; M has the means of both. Together
    with bounded moments this keeps the processes in a compact set. For $\gamma=1$ outer weights move at all widths
    alike. (M prints the discount as $\gamma$ in (21.33) and (21.34).)
    """
    runs, mean_field = survey(key, 0.0, 0.5), survey(key, 0.0, 1.0)
    times = np.arange(9) / 8 + 1 / WIDTHS[:, None, None]

    def outer(runs):
        """How far the outer weights have moved, and how far they may: |σ| is at most 1."""
        moved = jnp.max(jnp.abs(runs.outer - runs.outer[:, :, :1]), 3)
        return moved, ETA * runs.missed[..., None] * times / np.sqrt(WIDTHS)[:, None, None]

    yield at_most("movement of an outer weight against the time", *outer(runs))
    moved = jnp.abs(runs.outer[:, :, -1] - runs.outer[:, :, 0])
    yield rate("movement of an outer weight", WIDTHS, _mean(moved), -0.5, side="at most", **FITS)
    pairing = jnp.abs(runs.pairing[:, :, -1] - runs.pairing[:, :, 0])
    yield rate("movement of a pairing", WIDTHS, _mean(pairing), -0.5, side="at most", **FITS)
    moved = jnp.abs(runs.values - runs.values[:, :, :1])
    yield rate("movement of a value in all of the time", WIDTHS, _mean(moved[:, :, -1]), 0.0, side="at most", **FITS)
    reach = ETA * runs.speed[..., None] * times
    yield at_most("movement of a value against the time", jnp.max(moved, 3), reach)
    yield control("γ = 1/2: here 1", at_most("movement of an outer weight against the time", *outer(mean_field)))


@claim(rows=("M21.32", "M21.33"))
def parameter_bounds(key):
    r"""Along Q-learning of rate eta/N the weights and the second moments of the values stay bounded at all widths.

    $|\sigma|\le s$, $|r|\le B$, $\gamma_0=\frac1N\sum_n|C_0^n|$, $a=\frac{\eta sBT}{\sqrt N}$: on every path, for all
    units and $k\le NT$, $|C_k^n|\le|C_0^n|+a+(\gamma_0+a)(e^{\eta s^2(1+\beta)T}-1)$, for every $\eta<\infty$ (M asks
    for $\eta<N$); nearly attained by the first step of a saturated network that starts at zero. The mean length of the
    inner weights and $\max_kE\max_\xi Q_k(\xi)^2$ do not depend on the width up to $\frac1N$. A reward of twice the
    size leaves the bound.
    """
    runs = survey(key, 0.0, 0.5)
    yield at_most("largest outer weight over its bound", jnp.max(runs.against_bound, 1), np.ones(6), x=WIDTHS)
    yield rate("largest mean length of an inner weight", WIDTHS, jnp.max(jnp.mean(runs.inner, 1), 1), 0.0, **FITS)
    yield rate("largest second moment of the values", WIDTHS, jnp.max(jnp.mean(runs.largest, 1), 1), 0.0, **FITS)

    @jax.jit
    def first_step(rewards):
        # all units saturated: σ = 1 to rounding
        network = ScaledNetwork(jnp.zeros(16), jnp.full((16, 1), 20.0))
        bound = outer_weight_bound(network.outer, 16.0, 0.1 * (1 + BETA), 1 / 16, label_bound=1 / (1 + BETA))

        def moved(r):
            mdp = FiniteMDP(jnp.ones((1, 1, 1)), r[None, None], BETA)
            path = jnp.zeros(2, int), jnp.zeros(1, int)
            return q_network_sgd(network, jnp.ones((1, 1, 1)), mdp, path, 0.1, np.array([1]))[1].outer

        return jax.vmap(moved)(rewards), bound

    (right, wrong), bound = first_step(jnp.array([1.0, 2.0]))
    yield at_most("first step from zero: outer weight", right, bound)
    yield control(
        "rewards within the bound: here twice as large", at_most("first step from zero: outer weight", wrong, bound)
    )
