"""Reduce on plateau: gradient descent that divides its step when the loss has not come down for a while."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from corollary.optimization import minimize, plateau_reductions, quadratic, reduce_on_plateau


@pytest.mark.parametrize(("eta", "factor", "expected"), [(100.0, 2.0, 6), (100.0, 5.0, 3), (1.9, 2.0, 0)])
def test_plateau(eta, factor, expected):
    assert int(plateau_reductions(eta, 1.0, factor)) == expected
    problem = quadratic(jnp.array([1.0, 0.5]))
    path = minimize(problem, reduce_on_plateau(eta, factor=factor, patience=2), steps=300)
    assert path.value[-1] < 1e-12 * path.value[0]
    # the step is the ratio of a coordinate's change to its gradient
    step = (path.theta[-20, 0] - path.theta[-19, 0]) / path.theta[-20, 0]
    assert float(step) == pytest.approx(eta / factor**expected, rel=1e-6)


def test_plateau_against_the_best_is_what_optax_does():
    problem = quadratic(jnp.array([1.0]), jnp.array([1.0]))
    ours = minimize(problem, reduce_on_plateau(8.0, patience=2, against="best"), steps=40)
    theirs = optax.contrib.reduce_on_plateau(factor=0.5, patience=2, rtol=1e-12)
    state, theta, path = theirs.init(jnp.ones(1)), jnp.ones(1), [1.0]
    # Optax looks at the value before its step, and counts the first one as an improvement on infinity
    for _ in range(40):
        step, state = theirs.update(-8.0 * problem.gradient(theta), state, value=problem(theta))
        theta = theta + step
        path.append(float(theta[0]))
    np.testing.assert_allclose(ours.theta[:, 0], path, rtol=1e-12)
