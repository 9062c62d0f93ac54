"""Finite decision problems: one solution by four ways, with and without an end."""

from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp

from corollary.evidence import Probability, Range, Size, at_least, at_most, claim, control, equal, printed
from corollary.reinforcement import FiniteMDP, all_policies

Few = Annotated[int, Range(2, 6)]


def _random(key, states, actions, beta):
    law, reward = jax.random.split(key)
    p = jax.random.dirichlet(law, jnp.ones(states), (states, actions))
    return FiniteMDP(p, jax.random.normal(reward, (states, actions)), beta)


@claim(rows=("M21.17",))
def one_solution(key, *, problems: Size = 20, states: Few = 5, actions: Few = 3, beta: Probability = 0.9):
    r"""Sweeps, policy iteration and the best of all policies give one value, which no random policy exceeds.

    For $\beta<1$ the equation $V(x,a)=r(x,a)+\beta\sum_z\max_{a'}V(z,a')p(z|x,a)$ has one solution, its right-hand side
    is a contraction by $\beta$ in the largest entry, $\max_aV(x,a)=\sup_\lambda W_\lambda(x)$, and
    $\lambda(x)=\arg\max_aV(x,a)$ attains it at all states at once. The policy may look at the state: one that has to do
    the same in two states that reward opposite actions does not attain it.
    """

    @jax.jit
    def measure(key):
        problem_keys, pair_key, law_key = jax.random.split(key, 3)
        every = all_policies(states, actions)
        laws = jax.random.dirichlet(law_key, jnp.full(actions, 0.5), (64, states))

        def one(key):
            mdp = _random(key, states, actions, beta)
            swept, improved = mdp.q_iteration(), mdp.policy_iteration()
            values = jax.lax.map(mdp.evaluate, every)
            mixed = jax.lax.map(mdp.evaluate, laws)
            u, w = 5 * jax.random.normal(pair_key, (2, states, actions))
            ratio = jnp.abs(mdp.bellman(u) - mdp.bellman(w)).max() / jnp.abs(u - w).max()
            # states 0 and 1 reward opposite actions, by more than all that the others can give
            reward = mdp.r.at[0].set(100.0 * (jnp.arange(actions) == 0)).at[1].set(100.0 * (jnp.arange(actions) == 1))
            opposed = FiniteMDP(mdp.p, reward, beta)
            alike = jnp.where((every[:, 0] == every[:, 1])[:, None], jax.lax.map(opposed.evaluate, every), -jnp.inf)
            return (
                swept.q.max(1),
                improved.q.max(1),
                values.max(0),
                mdp.evaluate(swept.policy),
                mixed.max(0),
                ratio,
                alike.max(0),
                opposed.policy_iteration().q.max(1),
            )

        return jax.lax.map(one, jax.random.split(problem_keys, problems))

    swept, improved, listed, greedy, mixed, ratio, alike, opposed = measure(key)
    # rounding of a sweep over 1 - β
    yield equal("best of all policies", listed, swept, rtol=1e-10, atol=1e-10)
    yield equal("policy iteration", improved, swept, rtol=1e-10, atol=1e-10)
    yield equal("value of the greedy policy", greedy, swept, rtol=1e-10, atol=1e-10)
    yield at_most("values of random policies", mixed, swept, atol=1e-10)
    yield at_most("contraction in a sweep", ratio, beta)
    yield control(
        "the policy sees the state: here it does not tell two apart",
        equal("best of all policies", alike, opposed, rtol=1e-10, atol=1e-10),
    )


@claim(rows=("M21.17",), erratum="The discount of the infinite horizon may be 1 in print: then there is no solution.")
def no_discount_as_printed(key, *, states: Few = 4, actions: Few = 2, beta: Probability = 0.95):
    r"""Over an infinite horizon a discount below 1 is needed: without, no function solves Bellman's equation.

    Printed: $\beta\in(0,1]$. For rewards of 1 to 2 every sweep with $\beta=1$ adds at least 1 somewhere, however many
    went before and wherever they began, so that the change in a sweep, which is the residual of the equation, does not
    go to zero; with $\beta<1$ on the same problem it does.
    """
    counts = [10, 100, 1000, 10_000]

    @jax.jit
    def measure(key):
        law, reward, begin = jax.random.split(key, 3)
        p = jax.random.dirichlet(law, jnp.ones(states), (states, actions))
        mdp = FiniteMDP(p, jax.random.uniform(reward, (states, actions), minval=1.0, maxval=2.0), beta)
        start = 100 * jax.random.normal(begin, (states, actions))

        def changes(mdp):
            def onward(q, _):
                after = mdp.bellman(q)
                return after, jnp.abs(after - q).max()

            return jax.lax.scan(onward, start, length=counts[-1])[1][jnp.array(counts) - 1]

        return changes(mdp), changes(eqx.tree_at(lambda m: m.beta, mdp, jnp.asarray(1.0)))

    discounted, undiscounted = measure(key)
    yield equal("change in a late sweep", discounted[2:], [0.0, 0.0], atol=1e-10)
    yield at_least("change in a sweep without discount", undiscounted, 1.0, x=counts, along="sweeps")
    yield printed(
        equal("change in a sweep without discount", undiscounted, [0.0] * 4, atol=1e-3, x=counts, along="sweeps")
    )


@claim(rows=("M21.18",))
def finite_horizon(key, *, states: Few = 3, actions: Few = 2, beta: Probability = 0.9):
    r"""Going backwards from the end gives the best of all policies that look at the clock.

    $V(j,x,a)=r(j,x,a)+\beta\sum_z\max_{a'}V(j+1,z,a')p(z|x,a)$, $V(J,x,a)=r(J,x)$, and
    $\max_aV(0,x,a)=\sup_\lambda W_\lambda(J,x)$ over policies of time and state, for $\beta=1$ too. For rewards that do
    not depend on the time the values come within $\beta^J$ times the largest one of those without end. Policies that do
    not look at the clock do not suffice.
    """
    horizon = 3
    lengths = jnp.arange(1, 41)

    @jax.jit
    def measure(key):
        problem, reward, end = jax.random.split(key, 3)
        mdp = _random(problem, states, actions, beta)
        r = jax.random.normal(reward, (horizon, states, actions))
        # what is good at first is bad at the second step, so that the clock matters
        r = r.at[0].add(3.0 * jnp.arange(actions)).at[1].add(-3.0 * jnp.arange(actions))
        final = jax.random.normal(end, (states,))

        def value(plan, beta):
            """The expectation forwards: the law of the state at each time, from each first state."""

            def onward(carry, given):
                law, factor = carry
                r, policy = given
                at = jnp.arange(states)
                return (law @ mdp.p[at, policy], factor * beta), factor * law @ r[at, policy]

            (law, factor), earned = jax.lax.scan(onward, (jnp.eye(states), jnp.asarray(1.0)), (r, plan))
            return earned.sum(0) + factor * law @ final

        plans = all_policies(horizon * states, actions).reshape(-1, horizon, states)
        still = jnp.repeat(all_policies(states, actions)[:, None], horizon, 1)

        def best(plans, beta):
            return jax.vmap(lambda plan: value(plan, beta))(plans).max(0)

        def backwards(beta):
            return mdp.backward_induction(horizon, r=r, final=final, beta=beta)[0].max(1)

        # with no reward at the end the game of J steps is the last J steps of one of 40
        values = mdp.backward_induction(40)[:-1][::-1]
        without_end = mdp.q_iteration().q
        return (
            jnp.stack([backwards(beta), backwards(1.0)]),
            jnp.stack([best(plans, beta), best(plans, 1.0)]),
            best(still, beta),
            jnp.abs(values - without_end).max((1, 2)),
            jnp.abs(without_end).max(),
        )

    backwards, listed, still, error, largest = measure(key)
    yield equal("value of the best of all policies, β below 1 and 1", listed, backwards, rtol=1e-12, atol=1e-12)
    yield control(
        "policies may look at the clock: here they do not",
        equal("value of the best of all policies", still, backwards[0], rtol=1e-12, atol=1e-12),
    )
    yield at_most("distance to the value without end", error, beta**lengths * float(largest), x=lengths, along="steps")
