"""Bellman's equation for the least time and the least cost to a goal, with and without chance."""

from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp

from corollary.evidence import (
    Count,
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
)
from corollary.reinforcement import ShortestTime, all_policies, hitting_time_law

Few = Annotated[int, Range(2, 5)]


def _graph(key, states, actions):
    """Random edges, and one to the state before each, so that state 0 can be reached from everywhere."""
    successors = jax.random.randint(key, (states, actions), 0, states)
    return successors.at[:, 0].set(jnp.maximum(jnp.arange(states) - 1, 0))


@claim(rows=("M21.06",))
def least_time(key, *, states: Size = 200, actions: Size = 3, delta: Count = 2):
    r"""Sweeps of Bellman's equation from any start end at the distances that breadth-first search finds.

    $V(x)=\min_\alpha\{\delta+V(\Phi_\alpha(x))\}$ off the goal, 0 on it, with $\delta>0$: repetition from any
    $V\ge0$ ends at $\delta$ times the number of steps to the goal; the greedy policy takes that time, and every policy
    takes at least $\min_\alpha\{\delta+V(\Phi_\alpha(x))\}$. Where waiting costs nothing the solution is not unique.
    """

    @jax.jit
    def measure(key):
        edges, begin, choose = jax.random.split(key, 3)
        successors = _graph(edges, states, actions)
        problem = ShortestTime(successors, 0, cost=float(delta))
        start = jax.random.uniform(begin, (states,), maxval=3.0 * delta)

        def repeated(problem, v):
            return jax.lax.fori_loop(0, states, lambda _, v: problem.bellman(v), v)

        v = repeated(problem, start)
        # each action has a chance, so that all of them arrive
        policies = jax.random.dirichlet(choose, jnp.ones(actions), (8, states))
        # one more action: to stay, for nothing
        waiting = ShortestTime(jnp.concatenate([successors, jnp.arange(states)[:, None]], 1), 0)
        costs = jnp.concatenate([problem.cost, jnp.zeros((states, 1))], 1)
        free = eqx.tree_at(lambda p: p.cost, waiting, costs)
        return (
            v,
            problem.distances(),
            problem.evaluate(problem.greedy(v)),
            jax.vmap(problem.evaluate)(policies),
            problem.bellman(v),
            repeated(free, 0.0 * start),
        )

    v, distances, greedy, values, right, idle = measure(key)
    yield equal("value after the sweeps", v, delta * distances, rtol=0, atol=0, along="state")
    # a linear solve of 200 unknowns
    yield equal("time of the greedy policy", greedy, v, rtol=1e-10)
    yield at_least("mean times of random policies", values, jnp.broadcast_to(right, values.shape), rtol=1e-10)
    yield control(
        "every step takes time: here waiting does not",
        equal("value after the sweeps", idle, delta * distances, rtol=0, atol=0),
    )


@claim(rows=("M21.07",))
def equation_for_q(key, *, states: Size = 60, actions: Size = 3):
    r"""The values of actions solve an equation of their own if and only if those of states solve Bellman's.

    For $Q(x,\alpha)=\delta+V(\Phi_\alpha(x))$ it is
    $Q(x,\alpha)=\delta+1_{\Phi_\alpha(x)\notin B}\min_{\alpha'}Q(\Phi_\alpha(x),\alpha')$. The distances of
    breadth-first search give a $Q$ without a residual, repetition of the equation for $Q$ gives their minimum back, and
    the policy that is greedy for $Q$ is the quickest. The times of a policy that is not the quickest leave a residual.
    """

    @jax.jit
    def measure(key):
        problem = ShortestTime(_graph(key, states, actions), 0)
        distances = problem.distances()

        def onward(_, q):
            return q - problem.residual(q)

        repeated = jax.lax.fori_loop(0, states, onward, jnp.zeros((states, actions)))
        slow = problem.evaluate(jnp.zeros(states, int))  # from every state to the one before
        return (
            problem.residual(problem.q_from_v(distances)),
            problem.v_from_q(repeated),
            distances,
            problem.evaluate(repeated.argmin(1)),
            problem.residual(problem.q_from_v(slow)),
        )

    residual, back, distances, greedy, left = measure(key)
    yield equal("residual of Q", residual, jnp.zeros_like(residual), rtol=0, atol=0)
    yield equal("least Q of the repeated equation", back, distances, rtol=0, atol=0, along="state")
    yield equal("time of the policy that is greedy for Q", greedy, distances, rtol=1e-10, along="state")
    yield control(
        "V solves Bellman's equation: here the times of one slow policy",
        equal("residual of Q", left, jnp.zeros_like(left), rtol=0, atol=0),
    )


@claim(rows=("M21.11",))
def hitting_times_restart(key, *, places: Size = 12, chance: Probability = 0.4, paths: Count = 20_000):
    r"""The law of the time to the goal is one step later the mixture of the laws from where a kick leads to.

    $P(T(x)=n)=\sum_\zeta P(T(\Phi(x,\zeta))=n-1)p(\zeta)$ off the goal, for kicks that are independent, and so
    $E\,T(x)=\sum_\zeta\{1+E\,T(\Phi(x,\zeta))\}p(\zeta)$: the mean of the law, the solution of the linear equations and
    the mean of simulated runs agree. A walk of steps of 1 and 3 towards the goal; where the first kick is kept for ever
    the mean is another.
    """
    horizon = 8 * places

    @jax.jit
    def measure(key):
        at = jnp.arange(places)
        ends = jnp.stack([jnp.maximum(at - 1, 0), jnp.maximum(at - 3, 0)])
        chain = (1 - chance) * jax.nn.one_hot(ends[0], places) + chance * jax.nn.one_hot(ends[1], places)
        law = hitting_time_law(chain, 0, horizon)
        means = ShortestTime(chain[:, None], 0).evaluate(jnp.zeros(places, int))
        far = jax.random.bernoulli(key, chance, (paths, horizon))

        def time(far):
            def onward(x, far):
                return jnp.where(far, ends[1][x], ends[0][x]), x > 0

            return jax.lax.scan(onward, places - 1, far)[1].sum()

        kept = jnp.broadcast_to(far[:, :1], far.shape)
        return law, chain @ law, law @ jnp.arange(horizon + 1.0), means, jax.vmap(time)(far), jax.vmap(time)(kept)

    law, mixed, mean_of_law, means, times, kept = measure(key)
    yield equal("law of the time", law[1:, 1:], mixed[1:, :-1], atol=1e-12)
    # after 8 times as many steps as there are places all have arrived: steps of 1 alone take as many as places
    yield equal("mean of the law", mean_of_law, means, rtol=1e-10, along="state")
    predicted = float(means[-1])
    yield estimate("time in simulated runs", times, predicted, wrong=predicted + 1)
    yield control("independent kicks: here the first is kept", estimate("time", kept, predicted, wrong=predicted + 1))


def _noisy(key, states, actions, kicks):
    """Random maps for every action and kick, and the law of the kicks; one of them leads to the goal.

    From state 1 each action arrives with one kick only, and with another one than the next action.
    """
    maps, weights = jax.random.split(key)
    moves = jax.random.randint(maps, (states, actions, kicks), 0, states).at[:, :, 0].set(0)
    meets = jnp.arange(actions)[:, None] % kicks == jnp.arange(kicks)
    moves = moves.at[1].set(jnp.where(meets, 0, 1))
    return moves, jax.random.dirichlet(weights, jnp.full(kicks, 3.0))


@claim(rows=("M21.12",))
def expected_time(key, *, states: Few = 5, actions: Few = 3, kicks: Few = 3):
    r"""The least expected time solves Bellman's equation: it is that of the best of all policies.

    $V(x)=\min_\alpha\sum_\zeta\{\delta+V(\Phi_\alpha(x,\zeta))\}p(\zeta)$ off the goal, where some policy reaches it
    with certainty, and $Q(x,\alpha)=\delta+\sum_{\zeta:\Phi\notin B}\min_{\alpha'}Q(\Phi,\alpha')p(\zeta)$ with
    $\Phi=\Phi_\alpha(x,\zeta)$. The minimum is outside the sum: a driver who knows the kick before choosing needs less.
    """

    @jax.jit
    def measure(key):
        moves, law = _noisy(key, states, actions, kicks)
        p = jnp.einsum("xakz,k->xaz", jax.nn.one_hot(moves, states), law)
        problem = ShortestTime(p, 0)
        v = problem.value_iteration()
        values = jax.vmap(problem.evaluate)(all_policies(states, actions))
        # who sees the kick has an action for each of them
        plans = all_policies(kicks, actions)
        ends = jnp.take_along_axis(moves[:, None], plans[None, :, None, :], 2)[:, :, 0]
        seeing = ShortestTime(jnp.einsum("xpkz,k->xpz", jax.nn.one_hot(ends, states), law), 0)
        return v, values.min(0), problem.residual(problem.q_from_v(v)), seeing.value_iteration()

    v, best, residual, informed = measure(key)
    yield equal("value of the best policy of all", best, v, rtol=1e-10, along="state")
    yield equal("residual of Q", residual, jnp.zeros_like(residual), atol=1e-10)
    yield control(
        "the kick is not known beforehand: here it is", equal("value of the best policy", informed, v, rtol=1e-10)
    )


@claim(rows=("M21.15",))
def discounted_cost(key, *, states: Few = 5, actions: Few = 3, beta: Probability = 0.8, paths: Count = 20_000):
    r"""The discounted cost of a policy to the goal solves a linear equation; sweeps come closer by the factor β.

    $W_\lambda(x)=\sum_\zeta\{r(x,\Phi,\lambda(x))+\beta W_\lambda(\Phi)\}p(\zeta)$ off the goal, an equality where
    the text has $\ge$: the solution is the mean of the sums along simulated runs. Two functions are closer by $\beta$
    after a sweep of $V(x)=\min_\alpha\sum_\zeta\{r+\beta V(\Phi)\}p(\zeta)$, whose solution is the value of the best
    policy. With $r=\beta=1$ the cost is the mean time to the goal. With $\beta>1$ sweeps drive functions apart.
    """
    horizon = 150  # 0.8^150 is 3e-15

    @jax.jit
    def measure(key):
        law_key, cost_key, run_key, pair_key = jax.random.split(key, 4)
        p = jax.random.dirichlet(law_key, jnp.ones(states), (states, actions))
        p = 0.9 * jax.nn.one_hot(1 + jnp.arange(states) % (states - 1), states)[:, None] + 0.1 * p  # the goal is far
        cost = jax.random.uniform(cost_key, (states, actions, states), minval=0.5, maxval=1.5)
        problem = ShortestTime(p, 0, cost=cost, beta=beta)
        values = jax.vmap(problem.evaluate)(all_policies(states, actions))
        policy = jnp.zeros(states, int)
        reach = jnp.cumsum(p[:, 0], 1)

        def run(draws):
            def onward(carry, drawn):
                x, factor = carry
                z = jnp.minimum((drawn >= reach[x]).sum(), states - 1)
                paid = jnp.where(x == 0, 0.0, factor * cost[x, 0, z])
                return (jnp.where(x == 0, 0, z), factor * beta), paid

            return jax.lax.scan(onward, (1, 1.0), draws)[1].sum()

        u, w = jax.random.normal(pair_key, (2, states)).at[:, 0].set(0.0)
        growing = eqx.tree_at(lambda q: q.beta, problem, jnp.asarray(1.3))

        def apart(problem):
            def onward(pair, _):
                pair = problem.bellman(pair[0]), problem.bellman(pair[1])
                return pair, jnp.abs(pair[0] - pair[1]).max()

            return jax.lax.scan(onward, (u, w), length=20)[1] / jnp.abs(u - w).max()

        timed = ShortestTime(p, 0)
        law = hitting_time_law(timed.chain(policy), 0, 3000)
        return (
            jax.vmap(run)(jax.random.uniform(run_key, (paths, horizon))),
            problem.evaluate(policy)[1],
            apart(problem),
            apart(growing),
            problem.value_iteration(),
            values.min(0),
            timed.evaluate(policy),
            law @ jnp.arange(3001.0),
        )

    sums, cost, closer, farther, v, best, times, means = measure(key)
    sweeps = jnp.arange(1, 21)
    yield estimate("cost along runs", sums, float(cost), wrong=float(cost) * beta)
    yield at_most("distance after sweeps, of that before", closer, beta**sweeps, x=sweeps, along="sweeps")
    yield monotone("distance of two functions", closer, "decreasing", strict=True, x=sweeps, along="sweeps")
    yield control("β below 1: here 1.3", monotone("distance of two functions", farther, "decreasing", strict=True))
    yield equal("value of the best policy of all", best, v, rtol=1e-10, along="state")
    # the chance to be under way after 3000 steps is below (1 - 0.1 times the least chance of the goal)^3000
    yield equal("cost with r = β = 1", times, means, rtol=1e-6, along="state")
