import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary.nets import FullyConnected, parameter_count
from corollary.nets.recurrent import LSTM, Elman, Plant, Recurrent, Stacked, run_untied, unroll, untie

KEY = jax.random.key(0)


def sequence(steps=6, width=2, key=KEY):
    return jax.random.normal(key, (steps, width))


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
