"""Loops of known length written out, so that every layer of a network that scans over its layers can be seen."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary._engine.unroll import unrolled

KEY = jax.random.key(0)


def test_loops_written_out_compute_the_same():
    w = jax.random.normal(KEY, (3, 3))

    @jax.jit
    def both_ways(w, x):
        def step(reverse):
            def body(state, a):
                state = jnp.tanh(w @ state + a)
                return state, {"state": state, "square": a**2}

            return jax.lax.scan(body, jnp.zeros(3), x, reverse=reverse)

        return step(False), step(True), jax.lax.scan(lambda c, a: (c + a, None), jnp.zeros(3), x)[0]

    x = jax.random.normal(KEY, (5, 3))
    written_out = unrolled(both_ways)
    # XLA may fuse the two forms differently, so that they agree to rounding only
    for a, b in zip(jax.tree.leaves(written_out(w, x)), jax.tree.leaves(both_ways(w, x)), strict=True):
        np.testing.assert_allclose(a, b, rtol=20 * np.finfo(np.float32).eps)
    # the loop without a product stays one
    assert str(jax.make_jaxpr(both_ways)(w, x)).count(" scan[") == 3
    assert str(jax.make_jaxpr(written_out)(w, x)).count(" scan[") == 1
