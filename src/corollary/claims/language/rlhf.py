"""What the objective of RLHF is best at, and which answers become rarer there."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Count, Positive, Size, at_most, claim, control, equal, monotone
from corollary.foundations import kl, total_variation
from corollary.language import implicit_reward, rlhf, rlhf_objective, rlhf_optimum


@claim(rows=("T15.23", "T15.24"))
def optimum_of_rlhf(key, *, answers: Size = 6, beta: Positive = 0.5, policies: Count = 10_000):
    r"""The best policy is the reference tilted by the reward, and every other one is worse by β times its KL.

    $J(\pi)=\mathbb E_\pi r-\beta\,\mathrm{KL}(\pi\|\pi_{\rm SFT})$ is at most $\beta\ln Z$, with
    $Z=\sum_y\pi_{\rm SFT}(y)e^{r(y)/\beta}$; it is that at $\pi^*=\pi_{\rm SFT}e^{r/\beta}/Z$, and
    $J(\pi^*)-J(\pi)=\beta\,\mathrm{KL}(\pi\|\pi^*)$ for every $\pi$. Gradient ascent on the logits of a softmax policy
    ends at $\pi^*$, with exact gradients and with those of REINFORCE. As $\beta$ goes to 0 and to infinity, $\pi^*$
    goes to the best answer and to $\pi_{\rm SFT}$.
    """

    @jax.jit
    def measure(key):
        r_key, s_key, p_key, draw_key = jax.random.split(key, 4)
        reward = jax.random.uniform(r_key, (answers,), minval=-1.0)
        reference = jax.random.dirichlet(s_key, 3 * jnp.ones(answers))
        others = jax.random.dirichlet(p_key, jnp.ones(answers), (policies,))
        best, value = rlhf_optimum(reward, reference, beta)
        log_z = jnp.log(jnp.sum(reference * jnp.exp(reward / beta)))
        at = rlhf_objective(best, reward, reference, beta)
        below = jax.vmap(lambda p: rlhf_objective(p, reward, reference, beta))(others)
        distance = beta * kl(others, jnp.broadcast_to(best, others.shape))
        exact = rlhf(reward, reference, beta, 20_000)
        drawn = rlhf(reward, reference, beta, 20_000, step=0.2, batch_size=64, key=draw_key)
        ends = total_variation(jnp.stack([exact.policy, drawn.policy]), jnp.stack([best, best]))
        loose = total_variation(rlhf_optimum(reward, reference, 1000.0).policy, reference)
        even = jnp.full(answers, 1 / answers)  # another reference in the penalty than in the formula
        elsewhere = jax.vmap(lambda p: rlhf_objective(p, reward, even, beta))(others)
        gap_elsewhere = rlhf_objective(best, reward, even, beta) - elsewhere
        return (beta * log_z, value, at), at - below, distance, ends, loose, gap_elsewhere

    values, gaps, distances, ends, loose, elsewhere = measure(key)
    # a few operations on numbers of the order of 1
    yield equal("value at the optimum, β ln Z", values[1:], values[0], rtol=0, atol=1e-12)
    yield equal("how far other policies are below it, β KL", gaps, distances, rtol=1e-12, atol=1e-12)
    # an answer of probability p comes nearer by the share step β p per step: after 4,000 units of βp, p e^(-2000p)
    # is left, which is below 2e-4 for every p
    yield at_most("total variation after ascent, exact and REINFORCE", ends, 1e-3)
    # the logits move by 0.001 at most
    yield at_most("total variation to the reference at β = 1000", loose, 1e-3)
    yield control(
        "the KL is to the reference of the formula: here to the uniform law",
        equal("gap", elsewhere, distances, rtol=1e-12, atol=1e-12),
    )
    order = [[0.3, 0.29, -0.2], [0.2, 0.3, 0.5]]
    top = [1 - rlhf_optimum(order[0], order[1], b).policy[0] for b in (1.0, 0.1, 0.01, 0.001)]
    yield monotone("probability of all but the best answer, as β falls", np.array(top), "decreasing", strict=True)
    # odds of 2/3 e^(0.01/β) at least: below e^-9
    yield at_most("probability of all but the best answer at β = 0.001", top[-1], 1e-3)


@claim(rows=("T15.24", "T15.25"))
def answers_that_fall(key, *, answers: Size = 8, beta: Positive = 0.3, laws: Size = 200):
    r"""At the optimum an answer's probability falls exactly if its reward is below β ln Z, preferred or not.

    $\ln\frac{\pi^*(y)}{\pi_{\rm SFT}(y)}=\frac{r(y)-\beta\ln Z}\beta$, and $\mathbb E_{\rm SFT}r\le\beta\ln Z\le\max
    r$. So an answer that is preferred to most others, with a reward above the mean, falls if it is below $\beta\ln Z$.
    With three answers of rewards 1, 0.5 and 0, equally probable before, and $\beta=0.1$, the second one is preferred to
    the third and above the mean of all, and falls from $\frac13$ to below 0.01.
    """

    @jax.jit
    def measure(key):
        r_key, s_key, other_key = jax.random.split(key, 3)
        reward = jax.random.normal(r_key, (laws, answers))
        reference = jax.random.dirichlet(s_key, 2 * jnp.ones(answers), (laws,))
        best, value = rlhf_optimum(reward, reference, beta)
        change = jnp.log(best) - jnp.log(reference)
        moved = jax.random.normal(other_key, (laws, answers))  # the optimum for other rewards
        other = rlhf_optimum(moved, reference, beta).policy
        return reward, reference, best, value, change, jnp.log(other / reference)

    reward, reference, best, value, change, other = (np.asarray(a) for a in measure(key))
    threshold = beta * np.log(np.sum(reference * np.exp(reward / beta), -1))[:, None]
    yield equal("which answers fall", best < reference, reward < threshold, rtol=0, atol=0)
    yield equal("by how much, in logarithms", change, (reward - threshold) / beta, rtol=1e-9, atol=1e-10)
    middle = np.sum(reference * reward, -1)
    yield at_most("mean reward of the reference against β ln Z", middle, value, along="law")
    yield at_most("β ln Z against the largest reward", value, reward.max(-1), along="law")
    even = np.full(3, 1 / 3)
    shown = np.asarray(rlhf_optimum([1.0, 0.5, 0.0], even, 0.1).policy)
    yield at_most("the second of three answers, from 1/3", shown[1], 0.01)
    ratio = implicit_reward(np.log(shown), np.log(even), 0.1)
    yield equal("its margin over the third", ratio[1] - ratio[2], 0.5, rtol=1e-9)
    yield control(
        "the policy is the optimum of these rewards: here of others",
        equal("which answers fall", other < 0, reward < threshold, rtol=0, atol=0),
    )
