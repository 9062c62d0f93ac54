"""Large products with rounded factors: which of them, in every orientation, and what stays as it is."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from corollary._engine.rounded import SHORT, rounded

RNG = np.random.default_rng(0)


def _draw(*shape, dtype=np.float32):
    return jnp.asarray(RNG.normal(size=shape).astype(dtype))


def _exact(a):
    """A matrix after rounding, in double precision."""
    return np.asarray(a.astype(jnp.bfloat16)).astype(float)


@pytest.mark.parametrize("turned", [(), (0,), (1,), (0, 1)])
@pytest.mark.parametrize("over", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_factors_are_rounded_in_every_orientation(over, turned):
    m, n, k = 40, 33, 50
    pair = [_draw(*((k, side) if axis == 0 else (side, k))) for axis, side in zip(over, (m, n), strict=True)]

    def product(*given):
        a, b = (c.T if i in turned else c for i, c in enumerate(given))
        return lax.dot_general(a, b, (((over[0],), (over[1],)), ((), ())))

    given = [c.T if i in turned else c for i, c in enumerate(pair)]
    rows = [_exact(c).T if axis == 0 else _exact(c) for c, axis in zip(pair, over, strict=True)]
    # the factors have eight bits, their products sixteen: what is left is the error of 50 sums in single precision
    np.testing.assert_allclose(jax.jit(rounded(product))(*given), rows[0] @ rows[1].T, rtol=0, atol=1e-4)
    assert np.abs(np.asarray(product(*given)) - rows[0] @ rows[1].T).max() > 1e-3


def test_through_calls_derivatives_and_vmap():
    x, w, v = _draw(64, 48), _draw(40, 48), _draw(2, 40)

    @jax.jit
    def loss(w, v, x):
        return jnp.mean((jnp.tanh(x @ w.T / 7) @ v.T) ** 2)

    plain, ours = (make(jax.grad(loss, (0, 1))) for make in (lambda f: f, rounded))
    for a, b in zip(plain(w, v, x), ours(w, v, x), strict=True):
        # every factor is off by at most one part in 2^8, and three of them follow each other
        assert 0 < np.linalg.norm(a - b) <= 3 * 2**-8 * np.linalg.norm(a)
    both = jax.vmap(rounded(lambda w: x @ w.T))(jnp.stack([w, 2 * w]))
    np.testing.assert_allclose(both[1], 2 * both[0], rtol=1e-6)


def test_the_rest_stays_as_it_is():
    a, b, thin = _draw(64, 64), _draw(64, 64), _draw(64, SHORT - 1)
    cases = {
        "short side": (jnp.matmul, (a, thin)),
        "a precision asked for": (lambda a, b: jnp.matmul(a, b, precision="highest"), (a, b)),
        "a batch of products": (jnp.matmul, (jnp.stack([a, b]), jnp.stack([b, a]))),
        "two transposes": (lambda a: a.T.T, (a,)),
        "a transpose": (lambda a: a.T, (a,)),
        "another permutation": (lambda a: jnp.transpose(a[None], (2, 0, 1)), (a,)),
    }
    for name, (function, given) in cases.items():
        np.testing.assert_array_equal(rounded(function)(*given), function(*given), err_msg=name)
    with jax.enable_x64(True):
        wide = _draw(64, 64, dtype=float)
        np.testing.assert_array_equal(rounded(jnp.matmul)(wide, wide), wide @ wide)
