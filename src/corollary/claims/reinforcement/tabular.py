"""Learning from transitions of a finite problem: mean updates, convergence, exploration, linear values."""

from typing import Annotated

import jax
import jax.numpy as jnp

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
    monotone,
    printed,
    rate,
)
from corollary.reinforcement import FiniteMDP, empirical_law, explore, q_learning, td_direction

Few = Annotated[int, Range(2, 6)]


def _random(key, states, actions, beta):
    law, reward = jax.random.split(key)
    p = jax.random.dirichlet(law, jnp.ones(states), (states, actions))
    return FiniteMDP(p, jax.random.uniform(reward, (states, actions)), beta)


@claim(rows=("M21.19", "M21.37"))
def mean_update(key, *, states: Few = 4, actions: Few = 3, beta: Probability = 0.8):
    r"""The mean update of Q-learning is descent on the squared Bellman residual with its target held fixed.

    Over $(x,a)\sim\pi$ and $z\sim p(\cdot|x,a)$ the mean of
    $(r+\beta\max_{a'}Q(z,a')-Q(x,a))\nabla_\theta Q(x,a)$ is minus the gradient of
    $\Lambda=\frac12\sum_{x,a}\pi(x,a)(Y(x,a)-Q(x,a))^2$, the mean over $z$ inside the square and $Y$ fixed, for
    features and for tables. If $\pi>0$, $\Lambda(Q)=0$ only for the solution of Bellman's equation: with the mean
    over $z$ outside, or with a pair that is never visited, it is not so.
    """

    @jax.jit
    def measure(key):
        problem, weights, point, feature = jax.random.split(key, 4)
        mdp = _random(problem, states, actions, beta)
        pi = jax.random.dirichlet(weights, jnp.ones(states * actions)).reshape(states, actions)
        theta = jax.random.normal(point, (states * actions,))

        def both(features):
            def update(x, a, z):
                return pi[x, a] * mdp.p[x, a, z] * td_direction(theta, features, x, a, mdp.r[x, a], z, beta)

            every = jnp.indices((states, actions, states)).reshape(3, -1)
            y = mdp.bellman(features @ theta)
            slope = jax.grad(lambda theta: (pi * (y - features @ theta) ** 2).sum() / 2)(theta)
            return jax.vmap(update)(*every).sum(0), -slope

        table = jnp.eye(states * actions).reshape(states, actions, -1)
        mean = jnp.stack([jnp.stack(both(f)) for f in (table, jax.random.normal(feature, table.shape))])

        def inside(q, pi):
            return (pi * (mdp.bellman(q) - q) ** 2).sum() / 2

        def descended(pi):
            """Descent with the target of each sweep held fixed, in units of the weights where there are any."""
            seen = pi > 0
            return jax.lax.fori_loop(
                0, 400, lambda _, q: jnp.where(seen, mdp.bellman(q), q), jnp.zeros((states, actions))
            )

        q = mdp.q_iteration().q
        targets = mdp.r[..., None] + beta * q.max(1)
        outside = (pi[..., None] * mdp.p * (targets - q[..., None]) ** 2).sum() / 2
        unseen = pi.at[0, 0].set(0.0)
        zero, partly = descended(pi), descended(unseen)
        return mean, inside(q, pi), outside, zero, inside(zero, pi), partly, inside(partly, unseen), q

    mean, at_solution, outside, zero, zero_loss, partly, partly_loss, q = measure(key)
    yield equal("mean update, of a table and of features", mean[:, 0], mean[:, 1], rtol=1e-12)
    yield equal("loss at the solution", at_solution, 0.0, atol=1e-20)
    # 0.8^400 of the first error
    yield equal("losses that descend to zero", [zero_loss, partly_loss], [0.0, 0.0], atol=1e-20)
    yield equal("where the loss is zero", zero, q, rtol=1e-10)
    yield control("all pairs are visited: here one is not", equal("where the loss is zero", partly, q, rtol=1e-10))
    yield control(
        "the mean over next states is inside the square: here outside",
        equal("loss at the solution", outside, 0.0, atol=1e-20),
    )


@claim(rows=("M21.36",))
def tables_converge(key, *, states: Few = 5, actions: Few = 2, beta: Probability = 0.8, steps: Count = 200_000):
    r"""A table learns the solution of Bellman's equation along one run, for a discount above 2/3 too.

    Uniform actions on a chain that visits every pair thousands of times, steps $n^{-0.8}$ at the nth visit of a pair,
    rewards in [0, 1]: the largest error falls over 200,000 steps to below 0.05. Steps $n^{-2}$,
    which have a finite sum, stop on the way.
    """

    @jax.jit
    def measure(key):
        problem, run = jax.random.split(key)
        mdp = _random(problem, states, actions, beta)
        q = mdp.q_iteration().q

        def errors(step):
            learned = q_learning(mdp, steps, step=step, records=5, key=run)
            return jnp.abs(learned.path - q).max((1, 2)), learned.visits

        (error, visits), (stopped, _) = errors(lambda n: n**-0.8), errors(lambda n: n**-2.0)
        return error, visits, stopped

    error, visits, stopped = measure(key)
    # after 10,000 visits of a pair exp(-(1 - β) Σ n^-0.8) = 2e-3 of the first error is left, at most 0.01, and noise of
    # the last steps: targets that differ by less than 1 between next states have a deviation below 0.4, of which
    # √(η/(2(1 - β))) = 0.04 stays, 0.016; ten pairs are within 2.5 of these
    yield at_least("visits of each pair", visits, 1000.0)
    yield at_most("largest error at the end", error[-1], 0.05)
    yield control("steps with an infinite sum: here 1/n²", at_most("largest error at the end", stopped[-1], 0.05))


@claim(rows=("M21.22",))
def exploration(key, *, actions: Size = 4, epsilon: Probability = 0.3, draws: Count = 20_000):
    r"""Exploring now and then gives every action a share, and the greedy one the rest.

    The greedy action is taken with probability $1-\epsilon+\epsilon/|A|$, every other one with $\epsilon/|A|$;
    $\epsilon=1$ is uniform, $\epsilon=0$ greedy.
    """

    @jax.jit
    def measure(key):
        value_key, key = jax.random.split(key)
        values = jax.random.normal(value_key, (actions,))
        many = jnp.broadcast_to(values, (draws, actions))
        taken = [explore(many, e, key=key) for e in (epsilon, 1.0, 0.0)]
        return jax.nn.one_hot(taken[0], actions), jax.nn.one_hot(taken[1], actions), taken[2], values.argmax()

    some, uniform, greedy, best = measure(key)
    share = jnp.full(actions, epsilon / actions).at[best].add(1 - epsilon)
    wrong = jnp.full(actions, epsilon / (actions - 1)).at[best].set(1 - epsilon)  # were only the others explored
    yield estimate("share of each action", some, share, wrong=wrong)
    yield estimate("share with ε = 1", uniform, jnp.full(actions, 1 / actions), wrong=share)
    yield equal("action with ε = 0", greedy, jnp.full(draws, best), rtol=0, atol=0)


@claim(
    rows=("M21.39",),
    erratum="A greedy policy is said not to converge to a suboptimal action: it does, and so does not learn.",
)
def greed_never_learns(key, *, steps: Count = 10_000, epsilon: Probability = 0.1, beta: Probability = 0.5):
    r"""A greedy learner may settle on the worse of two actions; one that tries things out does not.

    Printed: the model may not train, that is, it "may not converge to a suboptimal action". One state, two actions with
    the rewards 1 and 2, and first values $q(1)$ and $q(2)$ with $q(2)<\min(q(1),\frac1{1-\beta})$: greed takes the
    first action for ever, its value goes to $\frac1{1-\beta}$, and that of the other is never learned. With
    $\epsilon$-greedy and with uniform actions the second action is the better one in the end, with the value
    $\frac2{1-\beta}$.
    """
    true = 2 / (1 - beta)

    @jax.jit
    def measure(key):
        first, run = jax.random.split(key)
        low = jax.random.uniform(first, maxval=0.9 / (1 - beta))
        start = jnp.stack([low + 0.5, low])[None]
        mdp = FiniteMDP(jnp.ones((1, 2, 1)), jnp.array([[1.0, 2.0]]), beta)

        def learned(epsilon):
            found = q_learning(mdp, steps, step=0.1, epsilon=epsilon, start=start, key=run)
            return found.q[0], found.visits[0]

        return [learned(e) for e in (0.0, epsilon, 1.0)], low

    ((greedy, visits), (trying, _), (uniform, _)), low = measure(key)
    share = visits[0] / visits.sum()
    yield equal("share of the worse action under greed", share, 1.0, rtol=0, atol=0)
    yield equal("values under greed", greedy, [1 / (1 - beta), float(low)], rtol=1e-10)
    # 500 visits of the better action, each of which leaves 0.9 + 0.1 β of the error
    yield equal("value of the better action with exploration", [trying[1], uniform[1]], [true, true], rtol=1e-6)
    yield at_least("lead of the better action", [trying[1] - trying[0], uniform[1] - uniform[0]], 0.5)
    yield printed(equal("share of the worse action under greed, as printed", share, 0.0, atol=0.5))


@claim(rows=("M21.38",))
def linear_values(key, *, steps: Count = 2000, step: Positive = 0.05, runs: Count = 400):
    r"""Linear Q-learning with orthonormal features is the table; with one feature it shrinks or grows as predicted.

    $\theta_{k+1}=\theta_k+\eta(r+\beta\max_{a'}\theta\cdot\phi(z,a')-\theta\cdot\phi(x,a))\phi(x,a)$. If the features
    of all pairs are orthonormal, $Q$ takes the same path as the table. One state, rewards 0, one feature $\phi=1$ and
    $\sqrt2-1$ for two actions, uniform actions: a positive $\theta$ is multiplied by $1+\eta(\beta-\phi_a)\phi_a$ in
    each step, so that $\log\theta_k$ grows by the mean of its logarithm, which changes its sign near
    $\beta=2/(1+\sqrt2)=0.828$: at 0.95 it grows without end, at 0.7 it goes to the solution 0.
    """
    states, actions = 3, 2
    phi = jnp.array([1.0, jnp.sqrt(2.0) - 1])

    @jax.jit
    def measure(key):
        problem, turn, run, many = jax.random.split(key, 4)
        mdp = _random(problem, states, actions, 0.8)
        orthonormal = jnp.linalg.qr(jax.random.normal(turn, (6, 6)))[0].reshape(states, actions, 6)
        table = q_learning(mdp, steps, step=step, records=20, key=run).path
        turned = q_learning(mdp, steps, step=step, features=orthonormal, records=20, key=run).path
        sheared = orthonormal.at[..., 0].mul(1.5)
        other = q_learning(mdp, steps, step=step, features=sheared, records=20, key=run).path

        def logs(beta):
            one = FiniteMDP(jnp.ones((1, 2, 1)), jnp.zeros((1, 2)), beta)

            def single(key):
                start = jnp.ones(1)
                found = q_learning(one, steps, step=step, features=phi[None, :, None], start=start, key=key)
                return jnp.log(found.theta[0])

            return jax.vmap(single)(jax.random.split(many, runs))

        return table, turned, other, jnp.stack([logs(0.7), logs(0.95)], 1)

    table, turned, other, logs = measure(key)
    predicted = jnp.array([steps * jnp.log1p(step * (beta - phi) * phi).mean() for beta in (0.7, 0.95)])
    yield equal("path of Q", turned, table, rtol=1e-9, atol=1e-9)
    yield control("orthonormal features: here one is stretched", equal("path of Q", other, table, rtol=1e-9, atol=1e-9))
    yield estimate("logarithm of θ at β = 0.7 and 0.95", logs, predicted, wrong=jnp.zeros(2))
    yield monotone(
        "logarithm of θ in all runs, 0.7 below 0 below 0.95", jnp.stack([logs[:, 0].max(), 0.0, logs[:, 1].min()])
    )


@claim(rows=("M21.13",), erratum="The empirical law of the next state is divided by the length of the whole history.")
def law_as_printed(key, *, states: Few = 4, actions: Few = 3, runs: Count = 40):
    r"""Divided by the visits of the pair the frequencies of next states are a law, which converges.

    Its distance to the true one falls like $1/\sqrt n$. Printed:
    $\mu_{(x,\alpha)}(S)=\frac1{|H|}\sum_{x':(x,\alpha,x')\in H}1_S(x')$. Of the whole space that is the share of the
    pair in the history, not 1.
    """
    sizes = [1000, 2000, 4000, 8000, 16_000, 32_000]

    @jax.jit
    def measure(key):
        problem, run = jax.random.split(key)
        mdp = _random(problem, states, actions, 0.5)
        reach = jnp.cumsum(mdp.p, 2)

        def one(key):
            here, there = jax.random.split(key)
            x, a = jnp.unravel_index(jax.random.randint(here, (sizes[-1],), 0, states * actions), (states, actions))
            z = jnp.minimum((jax.random.uniform(there, (sizes[-1], 1)) >= reach[x, a]).sum(1), states - 1)

            def at(n):
                found = empirical_law(x[:n], a[:n], z[:n], states=states, actions=actions)
                return jnp.abs(found.p - mdp.p).sum(2).mean(), found

            errors, laws = zip(*(at(n) for n in sizes), strict=True)
            last = laws[-1]
            return jnp.stack(errors), last.p.sum(2), last.p.sum(2) * last.visits / sizes[-1]

        return jax.lax.map(one, jax.random.split(run, runs))

    errors, mass, as_printed = measure(key)
    yield equal("total mass", mass, jnp.ones_like(mass), rtol=1e-12)
    yield rate("distance to the law", sizes, errors.mean(0), -0.5, tolerance=0.1, along="transitions")
    yield printed(equal("total mass, as printed", as_printed, jnp.ones_like(as_printed), rtol=0.05))
