"""The audit's draws are the same directions, however a library keeps the parameters."""

import jax
import jax.numpy as jnp
import numpy as np
from made import made

from corollary import landscape
from corollary.audit._order import ordered

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(40, 4)), np.arange(40) % 3
# biases are equal, as they are where training starts: their gradients tell them apart
W, B, V, C = RNG.normal(size=(4, 6)) / 2, np.zeros(6), RNG.normal(size=(6, 3)) / 2, np.zeros(3)


def one(p, x):
    return jnp.tanh(x @ p["w"] + p["b"]) @ p["v"] + p["c"]


def other(p, x):
    return jnp.tanh(x @ p[3].T + p[1]) @ p[0].T + p[2]


def test_products_are_those_of_the_operator_and_draws_do_not_depend_on_the_layout():
    with jax.enable_x64(True):
        subjects = [
            made(one, {"w": W, "b": B, "v": V, "c": C}, "cross_entropy", (X, Y)),
            made(other, [V.T, B, C, W.T], "cross_entropy", (X, Y)),
        ]
        found, key = [], jax.random.key(0)
        for subject in subjects:
            operator = landscape.hessian(subject.network, subject.loss, subject.train)
            sorted_operator = ordered(subject, operator)
            ends = sorted_operator.top(2, which="both", key=key, tolerance=1e-3)
            # eigenvectors are those of the operator itself
            errors = [jnp.linalg.norm(operator @ u - v * u) for v, u in zip(ends.values, ends.vectors, strict=True)]
            np.testing.assert_allclose(errors, ends.residuals, rtol=1e-6, atol=1e-12)
            # few steps, so that it shows where they began
            parts = sorted_operator.density(key=key, probes=2, steps=4), sorted_operator.trace(key=key, probes=6)
            more = sorted_operator.trace(key=key, probes=4, method="hutchinson")
            found.append(jax.tree.leaves((ends._replace(vectors=0), *parts, more)))
            exact = np.linalg.eigvalsh(operator.dense())
            np.testing.assert_allclose(ends.values, exact[[-1, 0]], atol=1e-3 * exact[-1])
            assert abs(more.value - exact.sum()) < 6 * more.error
        # rounding, which a few steps of Lanczos hardly enlarge
        for a, b in zip(*found, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-12)
