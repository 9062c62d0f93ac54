"""Reduce on plateau: a step that is divided until it fits."""

import jax
import jax.numpy as jnp

from corollary.evidence import Count, Positive, Size, at_most, claim, control, equal, monotone
from corollary.optimization import minimize, of_optax, plateau_reductions, quadratic, reduce_on_plateau


@claim(rows=("T02.39",))
def reductions_until_the_step_fits(
    key, *, dim: Size = 10, steps: Count = 400, times_too_long: Positive = 100.0, patience: Size = 3
):
    r"""Dividing the step whenever the loss does not fall ends just below the largest step that works.

    Gradient descent on a quadratic from $\eta_0$, where $\eta$ is divided by a factor $q$ after `patience` steps in a
    row that did not lower the loss: with $\eta<2/L$ every step lowers it, with $\eta>2/L$ none does in the end. So
    $\eta$ is divided $\lceil\log_q(\eta_0L/2)\rceil$ times, ends in $(\frac2{qL},\frac2L)$, and from then on the loss
    falls. Compared with the *best* loss so far instead of the last, the step is divided on while the loss is still
    coming down from where the divergence took it.
    """
    factors = jnp.array([2.0, 5.0])

    @jax.jit
    def measure(key):
        spectrum_key, start_key, eta_key = jax.random.split(key, 3)
        spectrum = jax.random.uniform(spectrum_key, (dim,), minval=0.1, maxval=1.0).at[0].set(1.0)
        problem = quadratic(spectrum, jax.random.normal(start_key, (dim,)) + 0.1)
        eta = times_too_long * jax.random.uniform(eta_key, minval=0.5, maxval=1.5)

        def run(factor, against):
            method = of_optax(reduce_on_plateau(eta, factor=factor, patience=patience, against=against))
            path = minimize(problem, method, steps=steps)

            def advance(state, k):
                return method.step(problem, state, k), None

            end = jax.lax.scan(advance, method.init(problem, problem.start), jax.random.split(key, steps))[0][1]
            return path.value, end.reductions, end.step

        last = jax.vmap(lambda q: run(q, "last"))(factors)
        best = jax.vmap(lambda q: run(q, "best"))(factors)
        return eta, last, best

    eta, (value, reductions, final), (_, eager, _) = measure(key)
    needed = plateau_reductions(eta, 1.0, factors)
    yield equal("number of reductions", reductions, needed, x=factors, along="factor")
    yield at_most("last step", final, 2.0, x=factors, along="factor")
    yield at_most("last step times the factor", -final * factors, -2.0, x=factors, along="factor")
    settled = (patience + 1) * (int(needed.max()) + 1)
    k = jnp.arange(settled, steps + 1)
    falling = jnp.log(value[:, settled:])
    yield monotone("logarithm of the loss once the step fits", falling, "decreasing", strict=True, x=k, along="step")
    yield control("compared with the best so far", equal("number of reductions", eager, needed, x=factors))
