import jax
import jax.numpy as jnp
import numpy as np

from corollary._engine.invariant import prepared

WEIGHT = jnp.arange(6.0).reshape(2, 3)


def function(x):
    bias = jnp.sin(WEIGHT).sum(1)  # does not depend on x
    return jnp.concatenate([x @ WEIGHT.T + bias, jnp.ones(40) * x[0]])


def test_only_what_depends_on_the_argument_remains():
    x = jnp.array([1.0, -2.0, 0.5])
    run, values = prepared(function, x)
    np.testing.assert_allclose(run(values, 2 * x), function(2 * x), rtol=1e-6)
    left = [eqn.primitive.name for eqn in jax.make_jaxpr(run)(values, x).eqns]
    assert not {"transpose", "sin", "reduce_sum"} & set(left)
    # forty ones are made anew: to keep them would take more memory than they were made of
    assert sorted(v.shape for v in values) == [(2,), (3, 2)]


def test_derivatives_by_what_is_enclosed():
    def value(weight):
        run, values = prepared(lambda x: jnp.tanh(x @ weight.T), jnp.ones(3))
        return run(values, jnp.arange(3.0)).sum()

    reference = jax.grad(lambda weight: jnp.tanh(jnp.arange(3.0) @ weight.T).sum())
    np.testing.assert_allclose(jax.jit(jax.grad(value))(0.1 * WEIGHT), reference(0.1 * WEIGHT), rtol=1e-6)


def test_effects_stay_where_they_are():
    seen = []

    def shown(x):
        jax.debug.callback(seen.append, WEIGHT[0, 1])
        return 2 * x

    run, values = prepared(shown, jnp.ones(()))
    jax.effects_barrier()
    assert not seen
    assert run(values, jnp.ones(())) == 2
    jax.effects_barrier()
    assert len(seen) == 1


def test_a_result_that_does_not_depend_on_the_argument():
    run, values = prepared(lambda x: WEIGHT[0] + 1, jnp.ones(3))
    np.testing.assert_array_equal(run(values, jnp.zeros(3)), WEIGHT[0] + 1)
    run, values = prepared(lambda x: jnp.zeros(3), jnp.ones(3))
    np.testing.assert_array_equal(run(values, jnp.ones(3)), np.zeros(3))
