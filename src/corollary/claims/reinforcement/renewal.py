"""How often a target may be renewed: spectra of rounds of learning against the rounds themselves."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary.dynamics import limit_kernel
from corollary.evidence import claim, control, equal
from corollary.reinforcement import History, residual_gradient, semi_gradient, target_renewal, td_stability


class Linear(eqx.Module):
    """Values that are linear in features (actions, features) of a state."""

    theta: jax.Array

    def __call__(self, features):
        return features @ self.theta


@claim(rows=("M21.27",))
def between_two_targets(key):
    r"""A target that is renewed every so many steps multiplies an error by what the kernels say, in every round.

    Values linear in features, one state with two actions encoded as $0.3(1,0)$ and $0.3(\sqrt2-1,0.05)$ (turned at
    random), with the features of the erf network's kernel, $\beta=0.95$, steps of half the largest for a target that
    waits. With a target that moves along the update is unstable (M's Theorem 21.7 says nothing above $\frac23$). With a
    renewal every $k$ steps of the mean semi-gradient, the error of the parameters at the fixed point is multiplied,
    from round to round in the end, by the spectral radius of
    $(I-\frac\eta nK)^k+(I-(I-\frac\eta nK)^k)K^{-1}\beta K'$: it grows for small $k$ and shrinks for large ones, whose
    limit is $\beta$, since every value can be reached. Down the residual gradient, which moves the target too, the
    error is multiplied by something else.
    """
    beta, often = 0.95, (1, 2, 4, 1024, 16_384)

    @jax.jit
    def measure(key):
        turn, start = jax.random.split(key)
        xi = 0.3 * jnp.array([[1.0, 0.0], [np.sqrt(2) - 1, 0.05]]) @ jax.random.orthogonal(turn, 2)
        features = jnp.linalg.cholesky(limit_kernel(xi))
        fixed = jnp.linalg.solve(features, jnp.array([1.0, beta]) / (1 - beta))
        state, no = jnp.broadcast_to(features, (2, 2, 2)), jnp.zeros(2, bool)
        given = History(state, jnp.arange(2), jnp.array([1.0, 0.0]), state, no, no)
        spectrum = td_stability(Linear(fixed), given, beta, frozen=True)
        step = spectrum.largest_step / 2
        found = [target_renewal(Linear(fixed), given, beta, step=step, every=k).radius for k in often]

        def growth(gradient, k):
            """The factor per round in the end: the length of an error that is rescaled after every round."""
            rounds = max(200, 4000 // k)

            def towards(held):
                # the target as the reward of transitions after which nothing comes
                y = given.reward + beta * (features @ held).max()
                return given._replace(reward=jnp.broadcast_to(y, (2,)), terminated=~no)

            def one_round(error, _):
                moves = towards(fixed + error) if gradient is semi_gradient else given

                def onward(_, theta):
                    return theta + step * gradient(Linear(theta), moves, beta).theta

                after = jax.lax.fori_loop(0, k, onward, fixed + error) - fixed
                size = jnp.linalg.norm(after)
                return after * jnp.where(size > 0, 1e-3 / size, 1), jnp.log(size / jnp.linalg.norm(error))

            error = jax.random.normal(start, (2,))
            _, logs = jax.lax.scan(one_round, 1e-3 * error / jnp.linalg.norm(error), length=rounds)
            return jnp.exp(logs[rounds // 2 :].mean())

        seen = jnp.stack([growth(semi_gradient, k) for k in often])
        return jnp.stack(found), seen, growth(residual_gradient, often[1])

    found, seen, residual = measure(key)
    # for these numbers of steps both eigenvalues are real; of the smaller one less than rounding is left after half of
    # the rounds, and an error of 1e-3 loses six digits to the fixed point of size 20 that it is added to
    yield equal("factor of an error per round", seen, found, rtol=1e-6, x=often, along="steps between renewals")
    yield equal("grows, and shrinks", jnp.sign(seen - 1), np.array([1, 1, 1, -1, -1]), x=often)
    yield equal("renewed rarely: the discount", found[-1], beta, rtol=1e-3)
    yield control(
        "the update is the semi-gradient: here the residual gradient",
        equal("factor of an error per round", residual, found[1], rtol=1e-6),
    )
