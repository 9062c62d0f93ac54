import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets import parameter_count, relu, tanh
from corollary.nets.recurrent import Elman, book_elman

KEY = jax.random.key(0)


def sequence(steps=6, width=2, key=KEY):
    return jax.random.normal(key, (steps, width))


def by_hand(cell, xs, z):
    states = []
    for x in np.asarray(xs):
        z = np.tanh(np.asarray(cell.recurrent) @ z + np.asarray(cell.inputs) @ x + np.asarray(cell.bias))
        states.append(z)
    return np.array(states)


def test_elman_is_its_formula():
    xs = sequence()
    model = Elman(2, 3, 4, output_activation=relu, key=KEY, start=0.5)
    states = by_hand(model.cell, xs, np.full(3, 0.5))
    found = model.run(xs)
    np.testing.assert_allclose(found.states, states, rtol=1e-12)
    outputs = np.maximum(states @ np.asarray(model.readout.weight).T + np.asarray(model.readout.bias), 0)
    np.testing.assert_allclose(found.outputs, outputs, rtol=1e-12)
    np.testing.assert_array_equal(model(xs), found.outputs)


def test_elman_without_biases_has_the_parameters_of_its_three_matrices():
    assert parameter_count(Elman(5, 3, 2, key=KEY, bias=False)) == 3 * 3 + 3 * 5 + 2 * 3


def test_elman_of_numbers_is_elman_of_matrices():
    model = Elman.of(0.5, -1.0, 0.2, 2.0, None, tanh)
    z = 0.0
    for x, y in zip([0.3, -0.7], model(jnp.array([[0.3], [-0.7]]))[:, 0], strict=True):
        z = np.tanh(0.5 * z - x + 0.2)
        assert y == pytest.approx(2 * z, rel=1e-12)
    assert model.readout.bias is None


def test_book_elman_gives_table_13_3():
    states, outputs = book_elman().run(jnp.array([[1.025], [0.893], [1.068]]))
    np.testing.assert_allclose(states[:, 0], [0.446, 0.351, 0.402], atol=5e-4)
    np.testing.assert_allclose(outputs[:, 0], [-0.105, -0.114, -0.109], atol=5e-4)


def test_dtype_follows_the_inputs():
    with jax.enable_x64(False):
        made = eqx.filter_eval_shape(lambda key: Elman(2, 3, 1, key=key)(jnp.ones((4, 2))), KEY)
        assert made.dtype == jnp.float32
