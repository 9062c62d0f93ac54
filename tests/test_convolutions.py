"""Convolutions rewritten for loops: the same numbers, in every layout, through derivatives, calls and constants."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from corollary._convolutions import loop_ready

RNG = np.random.default_rng(0)
LAYOUTS = [
    (("NCHW", "OIHW", "NCHW"), (2, 4, 7, 6), (6, 2, 3, 2)),
    (("NHWC", "HWIO", "NHWC"), (2, 7, 6, 4), (3, 2, 2, 6)),
    (("CNHW", "IHWO", "HWNC"), (4, 2, 7, 6), (2, 3, 2, 6)),
]


@pytest.mark.parametrize(("numbers", "x_shape", "kernel_shape"), LAYOUTS)
def test_same_numbers_in_every_layout(numbers, x_shape, kernel_shape):
    x, kernel = jnp.asarray(RNG.normal(size=x_shape)), jnp.asarray(RNG.normal(size=kernel_shape))

    def convolve(x, kernel):
        return lax.conv_general_dilated(
            x, kernel, (2, 1), ((1, 0), (2, 1)), rhs_dilation=(1, 2), dimension_numbers=numbers, feature_group_count=2
        )

    np.testing.assert_allclose(loop_ready(convolve)(x, kernel), convolve(x, kernel), rtol=1e-5, atol=1e-5)


def test_derivatives_of_both_orders_in_a_loop():
    x, kernel = jnp.asarray(RNG.normal(size=(3, 2, 9))), jnp.asarray(RNG.normal(size=(4, 2, 3)))
    offset = jnp.asarray(RNG.normal(size=7))

    def loss(kernel):
        out = jax.jit(lambda k: lax.conv_general_dilated(x, k, (1,), "VALID"))(kernel) + offset
        return jnp.mean(jax.checkpoint(jnp.tanh)(out) ** 2)

    def product(v):
        return {"hessian": jax.jvp(jax.grad(loss), (kernel,), (v["hessian"],))[1]}

    v = {"hessian": jnp.asarray(RNG.normal(size=kernel.shape))}
    found = lax.scan(lambda c, _: (loop_ready(product)(c), None), v, None, length=2)[0]
    np.testing.assert_allclose(found["hessian"], product(product(v))["hessian"], rtol=1e-4, atol=1e-6)


def test_every_convolution_is_rewritten():
    x, kernel = jnp.zeros((3, 2, 9)), jnp.zeros((4, 2, 3))

    def slope(kernel):
        return jax.grad(lambda k: jnp.sum(lax.conv_general_dilated(x, k, (1,), "VALID") ** 2))(kernel)

    def layouts(function):
        return [
            eqn.params["dimension_numbers"]
            for eqn in jax.make_jaxpr(function)(kernel).eqns
            if eqn.primitive.name == "conv_general_dilated"
        ]

    wanted = lax.ConvDimensionNumbers((0, 2, 1), (2, 1, 0), (0, 2, 1))
    assert layouts(loop_ready(slope)) == [wanted] * len(layouts(slope))
    assert wanted not in layouts(slope)


def test_no_function_is_refused():
    with pytest.raises(TypeError, match="function must be a function, got int"):
        loop_ready(3)
