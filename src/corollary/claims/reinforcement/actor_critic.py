"""Actor and critic (M, Remark 21.2)."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.dynamics import draw_shallow
from corollary.evidence import Size, at_least, at_most, claim, control, equal
from corollary.reinforcement import FiniteMDP, actor_critic, policy_gradient, q_network, softmax_policy


def _problem(key):
    p_key, r_key, state_key = jax.random.split(key, 3)
    mdp = FiniteMDP(jax.random.dirichlet(p_key, jnp.ones(5), (5, 2)), jax.random.normal(r_key, (5, 2)), 0.7)
    return mdp, 1.5 * jax.random.orthogonal(state_key, 5)


def _network(key, units):
    return q_network(draw_shallow(units, 7, key=key), 1.5 * jnp.eye(2))


@claim(rows=("M21.23",))
def gradient_of_a_policy(key):
    r"""With an exact critic the actor climbs the value of its policy: the policy gradient.

    $\lambda(a|x)=\operatorname{softmax}_aP(x,a;\theta)$ with a network $P$ of one hidden layer, $Q^\lambda$ the exact
    values of the policy, states met with the discounted occupancy $d$ from $\rho_0$:
    $\nabla_\theta\sum_x\rho_0(x)W_\lambda(x)= \frac1{1-\beta}\sum_xd(x)\sum_a\nabla\lambda(a|x)Q^\lambda(x,a)$, though
    $Q^\lambda$, which depends on $\theta$ too, is held fixed. With the critic of another policy, the uniform one, it is
    not the gradient.
    """

    @jax.jit
    def measure(key):
        problem_key, net_key, start_key = jax.random.split(key, 3)
        mdp, states = _problem(problem_key)
        actor = _network(net_key, 8)
        start = jax.random.dirichlet(start_key, jnp.ones(5))
        flat, tree = jax.flatten_util.ravel_pytree(actor.params)

        def worth(flat):
            return start @ mdp.evaluate(softmax_policy(actor.with_params(tree(flat)), states))

        def along(e):
            return (worth(flat + 1e-5 * e) - worth(flat - 1e-5 * e)) / 2e-5

        slopes = jax.lax.map(along, jnp.eye(flat.size))
        other = mdp.action_values(jnp.full((5, 2), 0.5))
        climbs = [policy_gradient(actor, states, mdp, start=start, q=q) for q in (None, other)]
        return slopes, *(jax.flatten_util.ravel_pytree(eqx.filter(c, eqx.is_array))[0] for c in climbs)

    slopes, exact, other = measure(key)
    # differences over 2e-5: their error is 1e-10 of the third derivative, and 1e-15 over 1e-5 of the value
    yield equal("slope of the value by differences", slopes, exact, rtol=1e-6, atol=1e-8)
    yield control(
        "values of this policy: here of the uniform one",
        equal("slope of the value by differences", slopes, other, rtol=1e-6, atol=1e-8),
    )


@claim(rows=("M21.23",), full={"problems": 20})
def learns_the_best_policy(key, *, problems: Size = 3):
    r"""Actor and critic, learned together, come at least 95 % of the way from the uniform policy to the best one.

    Random problems of five states and two actions, $\beta=0.7$; both are networks of one hidden layer of 32 units on
    $(x,a)$, with 32 walkers and 4,000 steps of Adam, of which the actor's are seven times shorter: an actor that is
    faster than its critic can settle on an action before the other one is known. The critic never sees the law of the
    moves. Without a critic that learns, its step being zero, the actor does not get there.
    """

    @jax.jit
    def measure(key, step):
        def one(key):
            problem_key, actor_key, critic_key, run_key = jax.random.split(key, 4)
            mdp, states = _problem(problem_key)
            run = actor_critic(
                _network(actor_key, 32),
                _network(critic_key, 32),
                states,
                mdp,
                (optax.adam(3e-3), optax.adam(step)),
                steps=4000,
                key=run_key,
            )
            uniform = jnp.mean(mdp.evaluate(jnp.full((5, 2), 0.5)))
            best = jnp.mean(mdp.policy_iteration().q.max(1))
            return (run.values[-1] - uniform) / (best - uniform)

        return jax.lax.map(one, jax.random.split(key, problems))

    reached = measure(key, 2e-2)
    yield at_least("share of the way to the best policy", reached, np.full(problems, 0.95))
    yield at_most("no policy is better than the best", reached, np.ones(problems))
    yield control(
        "a critic that learns: here one that does not",
        at_least("share of the way to the best policy", measure(key, 0.0), np.full(problems, 0.95)),
    )
