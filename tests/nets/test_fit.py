"""The long training loop: the steps of `train`, whole epochs, early stop, and a resumed run with the same bits."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from corollary import nets
from corollary.nets import MLP, fit, train

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(16, 2)).astype(np.float32), RNG.normal(size=16).astype(np.float32)
ADAM = optax.adam(0.05)


def loss(model, x, y):
    return jnp.mean((jax.vmap(model)(x)[:, 0] - y) ** 2)


def noisy(model, x, y, key):
    return loss(model, x + 0.1 * jax.random.normal(key, x.shape), y)


def network():
    return MLP((2, 5, 1), nets.tanh, key=KEY)


def whole(model):
    return loss(model, X, Y)


def same(a, b):
    for left, right in zip(*(jax.tree.leaves(eqx.filter(t, eqx.is_array)) for t in (a, b)), strict=True):
        np.testing.assert_array_equal(left, right)


def run(**changes):
    arguments = {"steps": 12, "key": KEY, "batch": 5, "every": 4, "progress": False, "measure": whole} | changes
    return fit(network(), arguments.pop("loss", noisy), arguments.pop("data", (X, Y)), ADAM, **arguments)


def test_full_batches_are_the_steps_of_train():
    ours = fit(network(), loss, (X, Y), ADAM, steps=7, key=KEY, every=3, progress=False, measure=whole)
    theirs = train(network(), loss, (X, Y), ADAM, steps=7, measure=whole)
    np.testing.assert_allclose(ours.losses, theirs.losses, rtol=1e-5)
    np.testing.assert_allclose(ours.record, theirs.record[np.array([0, 3, 6, 7])], rtol=1e-5)


def test_an_epoch_sees_every_example_once():
    def seen(model, state, i):
        return jnp.sum(model * 0), state.at[i].add(1)

    counts = fit(jnp.zeros(1), seen, (np.arange(12),), ADAM, steps=9, key=KEY, batch=4, state=jnp.zeros(12, int))
    np.testing.assert_array_equal(counts.state, 3)
    after_two = fit(jnp.zeros(1), seen, (np.arange(12),), ADAM, steps=2, key=KEY, batch=4, state=jnp.zeros(12, int))
    assert sorted(np.asarray(after_two.state)) == [0] * 4 + [1] * 8


@pytest.mark.parametrize("interrupted", [4, 8])
def test_a_resumed_run_ends_with_the_same_bits(tmp_path, interrupted):
    straight = run(stochastic=True)
    path = tmp_path / "run.ckpt"
    run(stochastic=True, steps=interrupted, checkpoint=path)
    resumed = run(stochastic=True, checkpoint=path)
    same(straight.model, resumed.model)
    np.testing.assert_array_equal(straight.losses, resumed.losses)
    np.testing.assert_array_equal(straight.record, resumed.record)


def test_early_stop_returns_the_best_model(tmp_path):
    def rising(model, i):
        return jnp.sum(model)  # goes down by 1 a step, away from the measure's minimum at 3

    path, sgd = tmp_path / "stop.ckpt", optax.sgd(1.0)
    arguments = {"steps": 50, "key": KEY, "every": 1, "patience": 2, "progress": False, "checkpoint": path}
    result = fit(jnp.array(5.0), rising, (np.zeros(1),), sgd, measure=lambda m: jnp.abs(m - 3), **arguments)
    assert float(result.model) == 3.0
    np.testing.assert_array_equal(result.record, [2, 1, 0, 1, 2])
    again = fit(jnp.array(5.0), rising, (np.zeros(1),), sgd, measure=lambda m: jnp.abs(m - 3), **arguments)
    assert float(again.model) == 3.0
    assert len(again.losses) == 4


def test_progress_is_told(capsys):
    run(loss=loss, progress=True)
    assert "12/12 steps" in capsys.readouterr().err


def test_a_loss_that_is_not_finite_ends_training():
    def burst(model, i):
        return jnp.where(model < -2, jnp.nan, model)

    with pytest.raises(FloatingPointError, match="the loss is not finite at step 3; a smaller learning rate"):
        fit(jnp.array(0.0), burst, (np.zeros(1),), optax.sgd(1.0), steps=9, key=KEY, progress=False)


def test_bad_input(tmp_path):
    path = tmp_path / "run.ckpt"
    run(loss=loss, checkpoint=path)
    damaged = tmp_path / "damaged.ckpt"
    damaged.write_bytes(path.read_bytes()[:-40])
    for changes, sentence in (
        ({"loss": 3}, "loss must be a function, got int"),
        ({"batch": 17}, "batch must be from 1 to 16, got 17"),
        ({"data": (), "batch": 1}, "batch needs data"),
        ({"patience": 1, "measure": None}, "patience needs a measure"),
        ({"patience": 1, "measure": lambda m: jnp.zeros(2)}, "measure must return one number"),
        ({"batch": 4, "checkpoint": path}, "is of a run with batches of 5, not 4"),
        ({"key": jax.random.key(1), "checkpoint": path}, "key and data with the digest"),
        ({"checkpoint": damaged}, "is damaged, or of another network"),
        ({"checkpoint": tmp_path}, "cannot be read"),
    ):
        with pytest.raises((TypeError, ValueError), match=sentence):
            run(**({"loss": loss} | changes))
