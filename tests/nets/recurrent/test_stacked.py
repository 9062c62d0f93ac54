import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets.recurrent import (
    LSTM,
    Bidirectional,
    DeepTransitionCell,
    Elman,
    ElmanCell,
    Plant,
    Recurrent,
    Stacked,
    future_influence,
    run_untied,
    unroll,
    untie,
)

KEY = jax.random.key(0)


def sequence(steps=6, width=2, key=KEY):
    return jax.random.normal(key, (steps, width))


def by_hand(cell, xs, z):
    states = []
    for x in np.asarray(xs):
        z = np.tanh(np.asarray(cell.recurrent) @ z + np.asarray(cell.inputs) @ x + np.asarray(cell.bias))
        states.append(z)
    return np.array(states)


def test_stack_is_the_same_by_steps_and_by_layers():
    xs = sequence()
    stack = Stacked.elman(2, 3, 2, key=KEY)
    first = by_hand(stack.cells[0], xs, np.zeros(3))
    second = by_hand(stack.cells[1], first, np.zeros(3))
    for states in (unroll(stack, xs), stack.layers(xs)):
        np.testing.assert_allclose(states[0], first, rtol=1e-12)
        np.testing.assert_allclose(states[1], second, rtol=1e-12)


def test_deep_transition_without_hidden_layers_is_elman():
    xs = sequence()
    deep = DeepTransitionCell(2, 3, (), key=KEY)
    weight, bias = deep.network.layers[0].weight, deep.network.layers[0].bias
    cell = eqx.tree_at(
        lambda c: (c.recurrent, c.inputs, c.bias),
        ElmanCell(2, 3, key=KEY),
        (weight[:, :3], weight[:, 3:], bias),
    )
    np.testing.assert_allclose(unroll(deep, xs), unroll(cell, xs), rtol=1e-12)
    assert unroll(DeepTransitionCell(2, 3, (4, 5), key=KEY), xs).shape == (6, 3)


def test_bad_arguments():
    xs = sequence()
    model = Elman(2, 3, 1, key=KEY)
    with pytest.raises(TypeError, match="transition must be a function of state and input, got int"):
        Plant(3, 0.0)
    with pytest.raises(TypeError, match="readout must be a function of the state, got int"):
        Recurrent(model.cell, 3)
    with pytest.raises(TypeError, match="cell must have"):
        Recurrent(abs, abs)
    with pytest.raises(TypeError, match="readout must be a function of both states, got int"):
        Bidirectional(model.cell, model.cell, 3)
    with pytest.raises(TypeError, match="activation must be a function of a number"):
        ElmanCell(2, 3, 1.0, key=KEY)
    with pytest.raises(TypeError, match="activation must be a function of a number"):
        DeepTransitionCell(2, 3, (), 1.0, key=KEY)
    with pytest.raises(TypeError, match="cells must be a sequence of at least one cell"):
        Stacked([])
    with pytest.raises(ValueError, match=r"copies must hold one copy per step, 6 in all, got \[5\]"):
        run_untied(untie(model, 5), xs)
    with pytest.raises(ValueError, match=r"xs must have at least two steps"):
        future_influence(model, xs[:1], key=KEY)
    with pytest.raises(ValueError, match=r"x must have shape \(..., 2\)"):
        model(xs[:, :1])
    with pytest.raises(ValueError, match="bias must have shape"):
        Elman.of(jnp.eye(2), jnp.eye(2), jnp.ones(3), jnp.eye(2), None)


def test_stack_shows_the_hidden_part_of_a_state():
    xs = sequence()
    below, above = LSTM(2, 3, key=KEY), ElmanCell(3, 2, key=KEY)
    shown = unroll(below, xs).hidden
    np.testing.assert_allclose(Stacked([below, above]).layers(xs)[1], by_hand(above, shown, np.zeros(2)), rtol=1e-12)
