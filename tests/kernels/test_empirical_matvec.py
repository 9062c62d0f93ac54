r"""Products with an empirical tangent kernel too large to hold: $\hat\Theta v=J(J^\top v)$, batch after batch."""

import jax.numpy as jnp
import numpy as np
import pytest

from corollary import Network
from corollary.kernels import empirical_ntk, empirical_ntk_matvec


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def of(apply, params):
    """The network of a function on batches."""
    return Network(apply, params, batched=True)


def test_matvec_of_scalar_outputs_and_several_inputs():
    def apply(params, x):
        return jnp.tanh(x["a"] @ params["w"]) * x["b"] + params["count"]

    params, x = {"w": normal(0, 4), "count": np.array(3)}, {"a": normal(1, 7, 4), "b": normal(2, 7)}
    v = normal(3, 7)
    expected = empirical_ntk(of(apply, params), x) @ v
    for trace in (True, False):
        found = empirical_ntk_matvec(of(apply, params), x, trace=trace, batch_size=3)(v)
        np.testing.assert_allclose(found, expected, rtol=1e-10)


def linear(params, x):
    return x @ params


def test_bad_vector():
    product = empirical_ntk_matvec(of(linear, normal(0, 3, 2)), normal(1, 4, 3), trace=False)
    with pytest.raises(ValueError, match=r"v must have shape \(4, 2\), got \(4,\)\."):
        product(np.ones(4))
    with pytest.raises(ValueError, match="v must be finite."):
        product(np.full((4, 2), np.nan))
