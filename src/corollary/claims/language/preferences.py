"""Preferences between answers: rewards that explain them, and policies that explain them without rewards."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Count, Positive, Size, at_least, at_most, claim, control, equal, rate
from corollary.foundations import total_variation
from corollary.language import bradley_terry, dpo_loss, fit_reward, implicit_reward, reward_loss, rlhf_optimum


@claim(rows=("T15.21", "T15.25"))
def preferences_through_the_policy(key, *, answers: Size = 6, laws: Size = 100):
    r"""The optimal policy says by itself which answer is preferred: the normalisation cancels.

    For $\pi^*=\pi_{\rm SFT}e^{r/\beta}/Z$ the Bradley-Terry probabilities $\sigma(r_1-r_2)$ are
    $\sigma\big(\beta\ln\frac{\pi^*(y_1)}{\pi_{\rm SFT}(y_1)}-\beta\ln\frac{\pi^*(y_2)}{\pi_{\rm SFT}(y_2)}\big)$. They
    do not change if all rewards of a prompt move by a constant, and those of a pair both ways sum to 1.
    """

    @jax.jit
    def measure(key):
        keys = jax.random.split(key, 5)
        reward = jax.random.normal(keys[0], (laws, answers))
        reference = jax.random.dirichlet(keys[1], 2 * jnp.ones(answers), (laws,))
        betas = jnp.exp(jax.random.uniform(keys[2], (laws,), minval=jnp.log(0.2), maxval=jnp.log(5.0)))
        other = jax.random.dirichlet(keys[3], jnp.ones(answers), (laws,))
        best = jax.vmap(lambda r, p, b: rlhf_optimum(r, p, b).policy)(reward, reference, betas)

        def table(r):
            return bradley_terry(r[..., :, None], r[..., None, :])

        def through(policy):
            return table(jax.vmap(implicit_reward)(jnp.log(policy), jnp.log(reference), betas))

        return table(reward), table(reward + jax.random.normal(keys[4], (laws, 1))), through(best), through(other)

    exact, moved, found, wrong = measure(key)
    # rewards of a few units, divided by β of 0.2 or more and multiplied by it again
    yield equal("preferences through the policy", found, exact, rtol=0, atol=1e-12)
    yield equal("rewards moved by a constant", moved, exact, rtol=0, atol=1e-12)
    yield equal("both ways", exact + jnp.swapaxes(exact, -1, -2), 1.0, rtol=0, atol=1e-14)
    yield control("the policy is the optimum: here any", equal("preferences", wrong, exact, rtol=0, atol=1e-12))


def _all_pairs(answers):
    return np.array(list(itertools.permutations(range(answers), 2)))


def _descend(logits, reference, pairs, weights, beta, steps, step):
    """Gradient descent on the loss of DPO, for a softmax policy."""
    logs = jnp.log(reference)[pairs]

    def loss(logits):
        return dpo_loss(jax.nn.log_softmax(logits)[pairs], logs, beta, weights)

    def down(logits, _):
        return logits - step * jax.grad(loss)(logits), None

    end, _ = jax.lax.scan(down, logits, None, length=steps)
    return jax.nn.softmax(end), loss(end)


@claim(rows=("T15.22", "T15.26"))
def dpo_is_rlhf(key, *, answers: Size = 6, beta: Positive = 0.5, comparisons: Count = 2000):
    r"""DPO ends at the optimum of RLHF with the rewards that fit the preferences best, without ever fitting them.

    With the exact preference probabilities of all pairs, a softmax policy that descends on the loss of DPO ends at
    $\pi_{\rm SFT}e^{r/\beta}/Z$ of the true reward. With finitely many comparisons it ends at the same formula with the
    most likely reward. Where the compared pairs fall into two groups, the end depends on the start; where preferences
    are certain there is no end: the loss goes to 0 and the policy on to a single answer.
    """
    pairs = _all_pairs(answers)
    inside = np.array([len({i // (answers // 2), j // (answers // 2)}) == 1 for i, j in pairs])
    # the curvature is β²/4 times the largest eigenvalue of the weighted graph at most, and that twice its degree
    step, steps = 4 / beta**2, 6000

    @jax.jit
    def measure(key):
        r_key, s_key, draw_key, start_key = jax.random.split(key, 4)
        reward = jax.random.uniform(r_key, (answers,), minval=-1.0)
        reference = jax.random.dirichlet(s_key, 4 * jnp.ones(answers))
        starts = jnp.log(jax.random.dirichlet(start_key, 4 * jnp.ones(answers), (2,)))
        share = bradley_terry(reward[pairs[:, 0]], reward[pairs[:, 1]])
        best = rlhf_optimum(reward, reference, beta).policy
        down = jax.vmap(lambda s, w: _descend(s, reference, pairs, w, beta, steps, step)[0], in_axes=(0, None))

        times = comparisons // len(pairs)
        wins = jax.random.binomial(draw_key, 2.0 * times, share)
        upper = pairs[:, 0] < pairs[:, 1]
        seen = jnp.where(upper, wins, 0.0)
        counts = jnp.zeros((answers, answers)).at[pairs[:, 0], pairs[:, 1]].set(seen)
        counts = counts + jnp.where(jnp.triu(jnp.ones_like(counts), 1) > 0, 2.0 * times - counts, 0.0).T
        weights = counts[pairs[:, 0], pairs[:, 1]]
        fitted = fit_reward(pairs, answers, weights=weights)
        two_steps = rlhf_optimum(fitted.rewards, reference, beta).policy
        certain = jnp.where(reward[pairs[:, 0]] > reward[pairs[:, 1]], 1.0, 0.0)
        endless = [_descend(starts[0], reference, pairs, certain, beta, n, step) for n in (500, 5000, 50_000)]
        return best, down(starts, share), two_steps, down(starts, weights), down(starts, share * inside), endless

    best, exact, two_steps, direct, split, endless = measure(key)
    # condition number 1/(4 σ(2) σ(-2)) < 3 of the logistic curvature: 6,000 steps go to rounding
    yield at_most("total variation to the optimum of RLHF", total_variation(exact, jnp.stack([best] * 2)), 1e-6)
    far = total_variation(direct, jnp.stack([two_steps] * 2))
    yield at_most("total variation to reward fit and RLHF, finite data", far, 1e-5)
    yield at_most("the end from two starts", total_variation(exact[0], exact[1]), 1e-6)
    yield control(
        "the compared pairs connect all answers: here two groups",
        at_most("the end from two starts", total_variation(split[0], split[1]), 1e-6),
    )
    losses = np.array([loss for _, loss in endless])
    # the loss of a separable logistic problem falls as one over the number of steps: by 100 here
    yield at_most("loss with certain preferences, over that of 500 steps", losses[-1] / losses[0], 0.02)
    late = total_variation(endless[1][0], endless[2][0])
    yield control("preferences are not certain: here they are", at_most("moved from 5,000 to 50,000 steps", late, 1e-6))


@claim(rows=("T15.22",))
def rewards_from_comparisons(key, *, answers: Size = 6, runs: Size = 200):
    r"""The most likely rewards come near the true ones with the square root of the number of comparisons.

    $-\mathbb E\ln\sigma(r(y_1)-r(y_2))$ is convex, flat only along a shift of all rewards. Its minimiser, centred, has
    an error with slope $-\frac12$ in the number of comparisons. Of preferences in a circle, each of three answers to
    the next, no reward is better than none: the loss is $\ln2$.
    """
    pairs = _all_pairs(answers)
    upper = pairs[pairs[:, 0] < pairs[:, 1]]
    numbers = 2 ** np.arange(5, 12)  # of every pair

    @jax.jit
    def measure(key):
        r_key, d_key, h_key = jax.random.split(key, 3)
        reward = jax.random.uniform(r_key, (answers,), minval=-1.0)
        share = bradley_terry(reward[upper[:, 0]], reward[upper[:, 1]])
        both = np.concatenate([upper, upper[:, ::-1]])

        def error(key, n):
            wins = jax.random.binomial(key, n, share)
            found = fit_reward(both, answers, weights=jnp.concatenate([wins, n - wins]), steps=15)
            return jnp.sum((found.rewards - (reward - reward.mean())) ** 2), found.gradient

        keys = jax.random.split(d_key, (numbers.size, runs))
        errors, slopes = jax.vmap(jax.vmap(error, in_axes=(0, None)))(keys, 1.0 * numbers)
        points = 2 * jax.random.normal(h_key, (50, answers))
        bent = jax.vmap(jax.hessian(lambda r: reward_loss(r[both])))(points)
        return jnp.sqrt(errors.mean(1)), jnp.max(slopes), jnp.linalg.eigvalsh(bent), bent.sum(-1)

    errors, slope, eigenvalues, flat = measure(key)
    # of 200 runs the root of the mean square is known to 3 %: a slope over a factor of 64 to 0.03
    compared = numbers * len(upper)
    yield rate("error of the rewards", compared, errors, -0.5, tolerance=0.1, along="comparisons")
    yield at_most("gradient at the fit", slope, 1e-10)
    yield equal("curvature along a shift", flat, 0.0, rtol=0, atol=1e-14)
    yield at_least("second smallest eigenvalue of the curvature", eigenvalues[:, 1], 1e-6)
    circle = np.array([[0, 1], [1, 2], [2, 0]])
    fitted = fit_reward(circle, 3)
    yield equal("loss of a circle", fitted.loss, np.log(2), rtol=1e-12)
    chances = bradley_terry(fitted.rewards[circle[:, 0]], fitted.rewards[circle[:, 1]])
    yield control(
        "preferences come from rewards: here from a circle of 0.9",
        equal("preferences of the fit", _fit_of_circle(circle, 0.9), 0.9, rtol=0, atol=0.05),
    )
    yield equal("preferences of the fit to a circle", chances, 0.5, rtol=0, atol=1e-12)


def _fit_of_circle(circle, share):
    """What the fit says of preferences in a circle that are seen with this share."""
    pairs = np.concatenate([circle, circle[:, ::-1]])
    rewards = fit_reward(pairs, 3, weights=np.repeat([share, 1 - share], 3)).rewards
    return bradley_terry(rewards[circle[:, 0]], rewards[circle[:, 1]])
