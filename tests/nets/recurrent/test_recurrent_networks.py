import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets import FullyConnected, parameter_count, relu, tanh
from corollary.nets.recurrent import (
    Bidirectional,
    DeepTransitionCell,
    Elman,
    ElmanCell,
    Plant,
    Recurrent,
    Stacked,
    book_elman,
    future_influence,
    run_untied,
    unroll,
    untie,
)
from corollary.nets.recurrent.lstm import LSTM

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


def test_plant_and_observer_and_its_continuation():
    xs = sequence(5, 1)
    model = Recurrent(Plant(lambda z, x: 0.5 * z + x, [1.0]), lambda z, x: z * x, sees_input=True)
    z, outputs = 1.0, []
    for x in np.asarray(xs)[:, 0]:
        z = 0.5 * z + x
        outputs.append(z * x)
    np.testing.assert_allclose(model(xs)[:, 0], outputs, rtol=1e-12)
    first = model.run(xs[:2])
    np.testing.assert_array_equal(model(xs[2:], first.states[-1]), model(xs)[2:])


def test_a_readout_gets_what_the_cell_shows():
    xs, head = sequence(), FullyConnected(3, 1, key=KEY)
    lstm = LSTM(2, 3, key=KEY)
    hidden = unroll(lstm, xs).hidden
    np.testing.assert_allclose(Recurrent(lstm, head)(xs), jax.vmap(head)(hidden), rtol=1e-12)
    above = LSTM(3, 3, key=jax.random.key(7))
    stacked = Recurrent(Stacked([lstm, above]), head)
    np.testing.assert_allclose(stacked(xs), jax.vmap(head)(unroll(above, hidden).hidden), rtol=1e-12)


def test_start_of_a_plant_is_not_trained():
    model = Recurrent(Plant(lambda z, x: z + x, jnp.ones(1)), lambda z: z)
    slope = eqx.filter_grad(lambda m: m(jnp.ones((2, 1))).sum())(model)
    assert slope.cell.start == 0


def test_untied_network_is_the_same_until_a_copy_changes():
    xs = sequence()
    model = Elman(2, 3, 1, key=KEY)
    copies = untie(model, 6)
    assert parameter_count(copies) == 6 * parameter_count(model)
    np.testing.assert_allclose(run_untied(copies, xs).outputs, model(xs), rtol=1e-14)
    changed = eqx.tree_at(lambda m: m.cell.bias, copies, copies.cell.bias.at[3].add(1.0))
    apart = np.abs(run_untied(changed, xs).outputs - model(xs))[:, 0] > 1e-9
    np.testing.assert_array_equal(apart, [False] * 3 + [True] * 3)


def test_stack_is_the_same_by_steps_and_by_layers():
    xs = sequence()
    stack = Stacked.elman(2, 3, 2, key=KEY)
    first = by_hand(stack.cells[0], xs, np.zeros(3))
    second = by_hand(stack.cells[1], first, np.zeros(3))
    for states in (unroll(stack, xs), stack.layers(xs)):
        np.testing.assert_allclose(states[0], first, rtol=1e-12)
        np.testing.assert_allclose(states[1], second, rtol=1e-12)


def test_stack_shows_the_hidden_part_of_a_state():
    xs = sequence()
    below, above = LSTM(2, 3, key=KEY), ElmanCell(3, 2, key=KEY)
    shown = unroll(below, xs).hidden
    np.testing.assert_allclose(Stacked([below, above]).layers(xs)[1], by_hand(above, shown, np.zeros(2)), rtol=1e-12)


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


def test_bidirectional_runs_from_both_ends():
    xs = sequence()
    there, back = ElmanCell(2, 3, key=KEY), ElmanCell(2, 4, key=KEY)
    both = Bidirectional(there, back)(xs)
    np.testing.assert_allclose(both[:, :3], by_hand(there, xs, np.zeros(3)), rtol=1e-12)
    np.testing.assert_allclose(both[:, 3:], by_hand(back, xs[::-1], np.zeros(4))[::-1], rtol=1e-12)
    memories = Bidirectional(LSTM(2, 3, key=KEY), back)(xs)
    np.testing.assert_allclose(memories[:, :3], unroll(LSTM(2, 3, key=KEY), xs).hidden, rtol=1e-12)
    read = Bidirectional(there, back, lambda z, x: z.sum() * x, sees_input=True)
    np.testing.assert_allclose(read(xs), np.asarray(both).sum(1)[:, None] * np.asarray(xs), rtol=1e-12)


def test_only_the_bidirectional_network_sees_the_future():
    xs = sequence(4)
    assert future_influence(Elman(2, 3, 1, key=KEY), xs, key=KEY) == 0
    assert future_influence(Bidirectional(ElmanCell(2, 3, key=KEY), ElmanCell(2, 3, key=KEY)), xs, key=KEY) > 0.01


def test_dtype_follows_the_inputs():
    with jax.enable_x64(False):
        made = eqx.filter_eval_shape(lambda key: Elman(2, 3, 1, key=key)(jnp.ones((4, 2))), KEY)
        assert made.dtype == jnp.float32


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
    with pytest.raises(ValueError, match=r"copies must be one for each of 6 steps, got \[5\]"):
        run_untied(untie(model, 5), xs)
    with pytest.raises(ValueError, match=r"xs must have at least two steps"):
        future_influence(model, xs[:1], key=KEY)
    with pytest.raises(ValueError, match=r"x must have shape \(..., 2\)"):
        model(xs[:, :1])
    with pytest.raises(ValueError, match="bias must have shape"):
        Elman.of(jnp.eye(2), jnp.eye(2), jnp.ones(3), jnp.eye(2), None)
