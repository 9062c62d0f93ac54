"""Values fitted to a history with a frozen target: what descent does, and what the printed losses do."""

from typing import Annotated

import jax
import jax.numpy as jnp
import optax

from corollary.evidence import Count, Positive, Probability, Range, claim, control, equal, printed
from corollary.reinforcement import (
    FiniteMDP,
    History,
    Table,
    empirical_law,
    fitted_q,
    fitted_target,
    frozen_target_loss,
)

Few = Annotated[int, Range(2, 6)]


def _problem(key, states, actions, beta):
    law, reward = jax.random.split(key)
    p = jax.random.dirichlet(law, jnp.ones(states), (states, actions))
    return FiniteMDP(p, jax.random.uniform(reward, (states, actions)), beta)


def _history(mdp, n, key):
    """n transitions from every pair in turn, with next states drawn from the law."""
    states, actions = mdp.r.shape
    x, a = jnp.unravel_index(jnp.arange(n) % (states * actions), (states, actions))
    z = jax.random.categorical(key, jnp.log(mdp.p[x, a]))
    return History(x, a, mdp.r[x, a], z, jnp.zeros(n, bool), jnp.zeros(n, bool))


@claim(rows=("M21.09",))
def damped_sweeps(key, *, states: Few = 5, actions: Few = 3, beta: Probability = 0.8, step: Positive = 2.0):
    r"""Descent on the loss with a frozen target is value iteration, damped: for a table, to rounding.

    With a history that holds every pair once and no chance, $\theta_{n+1}=\theta_n-\eta\nabla\Lambda_n(\theta_n)$ for
    $\Lambda_n(\theta)=\frac1{|H|}\sum|Q(\theta)-y(\theta_n)|^2$ is $Q_{n+1}=(1-c)Q_n+c\,TQ_n$ with $c=2\eta/|H|$, and
    ends at the solution of Bellman's equation. Where the target moves along with $\theta$ the steps are others.
    """
    pairs = states * actions
    sweeps = 4000

    @jax.jit
    def measure(key):
        edges, reward = jax.random.split(key)
        successors = jax.random.randint(edges, (states, actions), 0, states)
        mdp = FiniteMDP(jax.nn.one_hot(successors, states), jax.random.uniform(reward, (states, actions)), beta)
        history = _history(mdp, pairs, key)
        start = jnp.zeros((states, actions))
        share = 2 * step / pairs
        few = fitted_q(Table(start), history, beta=beta, optimiser=optax.sgd(step), sweeps=20).network.values
        many = fitted_q(Table(start), history, beta=beta, optimiser=optax.sgd(step), sweeps=sweeps).network.values
        damped = jax.lax.fori_loop(0, 20, lambda _, q: (1 - share) * q + share * mdp.bellman(q), start)

        def moving(_, q):
            def loss(q):
                return ((q[history.project()] - fitted_target(Table(q), history, beta)) ** 2).mean()

            return q - step * jax.grad(loss)(q)

        return few, damped, many, mdp.policy_iteration().q, jax.lax.fori_loop(0, 20, moving, start)

    few, damped, many, q, moved = measure(key)
    yield equal("values after 20 sweeps", few, damped, rtol=1e-12)
    # each sweep leaves 1 - c(1 - β) = 0.947 of the error
    yield equal("values after 4000 sweeps", many, q, rtol=1e-9)
    yield control("a frozen target: here it moves along", equal("values after 20 sweeps", moved, damped, rtol=1e-12))


@claim(
    rows=("M21.14",),
    erratum="The loss is printed with the old parameters in both places, and has no gradient.",
)
def loss_as_printed(key, *, states: Few = 3, actions: Few = 2, beta: Probability = 0.7, transitions: Count = 300):
    r"""Descent on the loss with averaged, frozen targets solves the Bellman equation of the empirical law.

    The loss is $\Lambda_n(\theta)=\frac1{|H|}\sum|Q(x,\alpha,\theta)-\bar y(\theta_n)|^2$, $\bar y$ the mean target of
    the pair. Printed: $Q(x,\alpha,\theta_n)$ in place of $Q(x,\alpha,\theta)$: the gradient in $\theta$ is 0, and what
    it starts from it keeps. The loss with a target for each transition is larger than that with the mean of the targets
    of a pair, by the mean of their variance, and has the same gradient.
    """
    sweeps = 3000

    @jax.jit
    def measure(key):
        problem, draws, first, second = jax.random.split(key, 4)
        mdp = _problem(problem, states, actions, beta)
        history = _history(mdp, transitions, draws)
        law = empirical_law(*history.project(), history.next_observation, states=states, actions=actions)
        empirical = FiniteMDP(law.p, mdp.r, beta)
        q, old = jax.random.normal(first, (states, actions)), jax.random.normal(second, (states, actions))

        def losses(q, averaged):
            return frozen_target_loss(Table(q), Table(old), history, beta, averaged=averaged)

        single, mean = (
            jax.value_and_grad(lambda q: losses(q, False))(q),
            jax.value_and_grad(lambda q: losses(q, True))(q),
        )
        best = old.max(1)
        spread = (law.p * best**2).sum(2) - (law.p * best).sum(2) ** 2
        variance = beta**2 * (law.visits * spread).sum() / transitions

        def printed_loss(q, old):
            return (
                frozen_target_loss(Table(jax.lax.stop_gradient(old)), Table(old), history, beta, averaged=True)
                + 0 * q.sum()
            )

        def by(loss):
            return jax.lax.fori_loop(0, sweeps, lambda _, q: q - 2.0 * jax.grad(loss)(q, q), q)

        def corrected(q, old):
            return frozen_target_loss(Table(q), Table(jax.lax.stop_gradient(old)), history, beta, averaged=True)

        return single, mean, variance, by(corrected), by(printed_loss), empirical.q_iteration().q, q

    (single, slope), (mean, mean_slope), variance, learned, kept, solution, start = measure(key)
    yield equal("loss with single targets above that with means", single - mean, variance, rtol=1e-9)
    yield equal("gradients of both", slope, mean_slope, rtol=1e-9, atol=1e-12)
    yield equal("where descent ends", learned, solution, rtol=1e-8)
    yield equal("where descent on the printed loss ends", kept, start, rtol=0, atol=0)
    yield printed(equal("where descent on the printed loss ends, as printed", kept, solution, rtol=1e-8))


@claim(rows=("M21.16",), erratum="The discounted loss is printed without the discount in its target.")
def discount_as_printed(key, *, states: Few = 4, actions: Few = 2, beta: Probability = 0.7):
    r"""The target of the discounted loss discounts what comes after; without that another problem is solved.

    Printed: $\delta\int r\,d\mu+\int_{X\setminus B}\inf Q\,d\mu$. Episodes end at a goal, so that both have a solution.
    With $\beta$ in the target descent ends at the solution of the discounted Bellman equation, as printed at the
    undiscounted one, on the same history.
    """
    pairs = states * actions

    @jax.jit
    def measure(key):
        edges, reward = jax.random.split(key)
        # mostly towards the goal, which is state 0 and is not left
        x, a = jnp.unravel_index(jnp.arange(pairs), (states, actions))
        z = jnp.where(a == 0, jnp.maximum(x - 1, 0), jax.random.randint(edges, (pairs,), 0, states))
        r = -jax.random.uniform(reward, (pairs,), minval=0.5, maxval=1.5)
        r = jnp.where(x == 0, 0.0, r)  # nothing is paid at the goal
        history = History(x, a, r, jnp.where(x == 0, 0, z), (x == 0) | (z == 0), jnp.zeros(pairs, bool))
        p = jax.nn.one_hot(history.next_observation, states).reshape(states, actions, states)

        def learned(factor):
            optimiser = optax.sgd(pairs / 4)
            start = Table(jnp.zeros((states, actions)))
            return fitted_q(start, history, beta=factor, optimiser=optimiser, sweeps=2000).network.values

        return learned(beta), learned(1.0), FiniteMDP(p, r.reshape(states, actions), beta).policy_iteration().q

    with_discount, without, solution = measure(key)
    yield equal("where descent ends", with_discount, solution, rtol=1e-9)
    yield printed(equal("where descent ends, as printed", without, solution, rtol=1e-9))
