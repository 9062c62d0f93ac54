"""At which discount learning of values breaks: spectra of the update against the limit equation."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary.dynamics import limit_kernel
from corollary.evidence import Size, at_least, claim, control, equal
from corollary.reinforcement import FiniteMDP, History, q_limit, td_stability


class Linear(eqx.Module):
    """Values that are linear in features (actions, features) of a state."""

    theta: jax.Array

    def __call__(self, features):
        return features @ self.theta


def _one_state(features, seen):
    """The actions `seen` of one state, each back to it, with the same `features` (actions, features)."""
    n = len(seen)
    state, no = jnp.broadcast_to(features, (n, *features.shape)), jnp.zeros(n, bool)
    return History(state, jnp.asarray(seen), jnp.zeros(n), state, no, no)


@claim(rows=("M21.27",))
def one_state_breaks(key):
    r"""One state and two actions: the limit of Q-learning converges up to the discount that the spectrum names.

    Two actions encoded as $0.3(1,0)$ and $0.3(\sqrt2-1,0.05)$, in distinct directions, with the kernel $A$ of the erf
    network, of eigenvalues $6.3\cdot10^{-4}$ and $0.2338$; rewards 1 and 0, uniform actions. As long as the first
    action is the best one, both eigenvalues of the linear part $-\frac12(A-\beta A')$, with $A'$ the first row of $A$
    twice, cross the imaginary axis together, at $\beta=\frac{A_{11}+A_{22}}{A_{11}+A_{12}}=0.8316$. Beyond the
    threshold $\frac23$ of M's Theorem 21.7, which is sufficient and not sharp, the equation goes on to converge up to
    there; at 0.85 it does not come to rest, at 0.95 it grows without bound.
    """
    near, beyond = np.array([0.5, 2 / 3, 0.75, 0.8, 0.825]), np.array([0.85, 0.95])

    @jax.jit
    def measure(key):
        turn, start_key = jax.random.split(key)
        xi = 0.3 * jnp.array([[1.0, 0.0], [np.sqrt(2) - 1, 0.05]]) @ jax.random.orthogonal(turn, 2)
        kernel = limit_kernel(xi)
        scale = jax.random.uniform(start_key, minval=0.5, maxval=1.5)
        # as long as it is this near to the values, the first action remains the best one
        features = jnp.linalg.cholesky(kernel)
        given = _one_state(features, [0, 1])
        spectra = jax.lax.map(
            lambda beta: td_stability(Linear(jnp.linalg.solve(features, jnp.array([1.0, 0.4]))), given, beta),
            jnp.concatenate([near, beyond]),
        )

        def away(beta, time):
            mdp = FiniteMDP(jnp.ones((1, 2, 1)), jnp.array([[1.0, 0.0]]), beta)
            value = jnp.array([[1.0, beta]]) / (1 - beta)
            start = value + scale * jnp.array([[1.0, np.sqrt(2) - 1]])
            # 60,000 steps, each at most 0.2 of the fastest rate, 20 * 0.23 / 2
            end = q_limit(start, kernel, mdp, 20.0, time[None], substeps=60_000)[0]
            return jnp.linalg.norm(end - value) / jnp.linalg.norm(start - value)

        # the slowest of them, 0.825, has a rate of 20 * 4.7e-4: e^(-19) of the start is left at time 2000
        betas, times = jnp.concatenate([near, beyond]), jnp.array([2000.0] * 6 + [100.0])
        return kernel, spectra, jax.vmap(away)(betas, times)

    kernel, spectra, left = measure(key)
    yield equal("eigenvalues of the kernel", jnp.linalg.eigvalsh(kernel), [6.3e-4, 0.2338], rtol=5e-3)
    trace = (kernel[0, 0] + kernel[1, 1]) / (kernel[0, 0] + kernel[0, 1])
    yield equal("critical discount: where the trace vanishes", spectra.critical_beta, trace, rtol=0, atol=2e-6)
    yield equal("critical discount: to four digits", spectra.critical_beta, 0.8316, rtol=0, atol=5e-5)
    signs = jnp.sign(spectra.abscissa)
    yield equal("sign of the abscissa", signs, np.sign(np.concatenate([near, beyond]) - 0.8316), x=[*near, *beyond])
    yield equal("what is left of the distance", left[:5], 0.0, atol=1e-6, x=near, along="discount")
    for i, beta in enumerate(beyond, 5):
        yield control(
            f"a discount below the critical one: here {beta}",
            equal("what is left of the distance", left[i], 0.0, atol=1e-6),
        )
    yield at_least("growth by time 100 at the discount 0.95", left[6], 100.0)


@claim(rows=("M21.27",))
def one_feature_threshold(key, *, draws: Size = 50):
    r"""One state and one feature: no discount below 2/(1+sqrt(|A|)) breaks learning, and that one can.

    Values $\theta\phi(a)$ with one feature $\phi>0$, uniform actions, $\phi$ largest at the first action: the update is
    unstable from $\beta=\frac{\sum_a\phi(a)^2}{\phi(1)\sum_a\phi(a)}$ on, which is least, $\frac2{1+\sqrt{|A|}}$, for
    $\phi(a)/\phi(1)=\frac{\sqrt{|A|}-1}{|A|-1}$ at all other actions. M's $\frac2{1+|A|}$ is less. If the other actions
    are drawn three times as often, the least is less.
    """
    for actions in (2, 4):
        least = 2 / (1 + np.sqrt(actions))

        @jax.jit
        def measure(key, others=actions):
            phi = jax.random.uniform(key, (draws, others), minval=0.05, maxval=1.0).at[:, 0].set(1)
            phi = phi.at[0, 1:].set((np.sqrt(others) - 1) / (others - 1))

            def critical(phi, seen):
                return td_stability(Linear(jnp.ones(1)), _one_state(phi[:, None], seen), 0.5).critical_beta

            often = [0, *np.repeat(np.arange(1, others), 3)]
            each = jax.lax.map(lambda p: critical(p, np.arange(others)), phi)
            formula = jnp.sum(phi**2, 1) / jnp.sum(phi, 1)
            return each, formula, jax.lax.map(lambda p: critical(p, often), phi[:8])

        each, formula, often = measure(key)
        name = f"{actions} actions: "
        # the critical discount is found to 1e-6; beyond 1 there is none
        found = formula < 1 - 1e-5
        yield equal(
            name + "critical discount", np.where(found, each, 0), np.where(found, formula, 0), rtol=0, atol=2e-6
        )
        yield at_least(name + "against the least one", each, np.full(draws, least), atol=2e-6)
        yield equal(name + "the least one is attained", each[0], least, rtol=0, atol=2e-6)
        yield control(
            "uniform actions: here the others three times as often",
            at_least(name + "against the least one", often, np.full(8, least), atol=2e-6),
        )
