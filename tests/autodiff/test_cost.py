"""What a program costs, counted and not timed: the scalar multiplications in its matrix products."""

import jax
import jax.numpy as jnp
import pytest

from corollary.autodiff import composition_cost, jacobian_chain, multiplications


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def test_multiplications():
    a, b, v = jnp.ones((3, 4)), jnp.ones((4, 5)), jnp.ones(4)
    assert multiplications(lambda a, b: a @ b, a, b) == 60
    assert multiplications(jax.jit(lambda a, v: a @ v), a, v) == 12
    assert multiplications(lambda b: jax.lax.scan(lambda h, _: (b[:, :4] @ h, None), v, length=7)[0], b) == 7 * 16
    assert multiplications(lambda b: jax.lax.cond(True, lambda: (a @ b).sum(), lambda: 0.0), b) == 60
    assert multiplications(jax.vmap(lambda x: a @ x), jnp.ones((6, 4))) == 72
    assert multiplications(lambda a: a * a, a) == 0
    matrices = [jnp.ones((4, 6)), jnp.ones((4, 4)), jnp.ones((2, 4))]
    for mode in ("forward", "reverse"):
        assert multiplications(lambda *m, mode=mode: jacobian_chain(m, mode), *matrices) == composition_cost(
            3, 4, 2, 6, mode
        )
