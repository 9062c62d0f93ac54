"""The long training loop: the steps of `train`, whole epochs, early stop, and a resumed run with the same bits."""

import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from corollary import nets
from corollary.nets import MLP, fit, train
from corollary.network import BatchLoss

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(16, 2)).astype(np.float32), RNG.normal(size=16).astype(np.float32)
ADAM = optax.adam(0.05)


def loss(output, target):
    return (output[0] - target) ** 2


def mean_of(model, x, y):
    return jnp.mean((jax.vmap(model)(x)[:, 0] - y) ** 2)


@BatchLoss
def noisy(model, batch, *, key):
    x, y = batch
    return mean_of(model, x + 0.1 * jax.random.normal(key, x.shape), y)


def network():
    return MLP((2, 5, 1), nets.tanh, key=KEY)


def whole(model):
    return mean_of(model, X, Y)


def same(a, b):
    for left, right in zip(*(jax.tree.leaves(eqx.filter(t, eqx.is_array)) for t in (a, b)), strict=True):
        np.testing.assert_array_equal(left, right)


def run(**changes):
    given = {"network": network(), "loss": noisy, "data": (X, Y), "optimiser": ADAM}
    options = {"steps": 12, "key": KEY, "batch_size": 5, "every": 4, "progress": False, "measure": whole}
    return fit(**given | options | changes)


def test_full_batches_are_the_steps_of_train():
    ours = fit(network(), loss, (X, Y), ADAM, steps=7, key=KEY, every=3, progress=False, measure=whole)
    theirs = train(network(), loss, (X, Y), ADAM, steps=7, measure=whole)
    np.testing.assert_allclose(ours.losses, theirs.losses, rtol=1e-5)
    np.testing.assert_allclose(ours.record, theirs.record[np.array([0, 3, 6, 7])], rtol=1e-5)


def test_an_epoch_sees_every_example_once():
    @BatchLoss
    def seen(model, i, *, state):
        return jnp.sum(model * 0), state.at[i].add(1)

    options = {"key": KEY, "batch_size": 4, "state": jnp.zeros(12, int), "progress": False}
    counts = fit(jnp.zeros(1), seen, np.arange(12), ADAM, steps=9, **options)
    np.testing.assert_array_equal(counts.state, 3)
    after_two = fit(jnp.zeros(1), seen, np.arange(12), ADAM, steps=2, **options)
    assert sorted(np.asarray(after_two.state)) == [0] * 4 + [1] * 8


@pytest.mark.parametrize("interrupted", [4, 8])
def test_a_resumed_run_ends_with_the_same_bits(tmp_path, interrupted):
    straight = run()
    path = tmp_path / "run.ckpt"
    run(steps=interrupted, checkpoint=path)
    resumed = run(checkpoint=path)
    same(straight.network, resumed.network)
    np.testing.assert_array_equal(straight.losses, resumed.losses)
    np.testing.assert_array_equal(straight.record, resumed.record)


def test_early_stop_returns_the_best_model(tmp_path):
    @BatchLoss
    def rising(model, _):
        return jnp.sum(model)  # goes down by 1 a step, away from the measure's minimum at 3

    path, sgd = tmp_path / "stop.ckpt", optax.sgd(1.0)
    arguments = {"steps": 50, "key": KEY, "every": 1, "patience": 2, "progress": False, "checkpoint": path}
    result = fit(jnp.array(5.0), rising, (), sgd, measure=lambda m: jnp.abs(m - 3), **arguments)
    assert float(result.network) == 3.0
    np.testing.assert_array_equal(result.record, [2, 1, 0, 1, 2])
    again = fit(jnp.array(5.0), rising, (), sgd, measure=lambda m: jnp.abs(m - 3), **arguments)
    assert float(again.network) == 3.0
    assert len(again.losses) == 4


def test_progress_is_told(capsys):
    run(loss=loss, progress=True)
    assert "12/12 steps" in capsys.readouterr().err


def test_a_loss_that_is_not_finite_ends_training():
    @BatchLoss
    def burst(model, _):
        return jnp.where(model < -2, jnp.nan, model)

    with pytest.raises(FloatingPointError, match="the loss is not finite at step 3; a smaller learning rate"):
        fit(jnp.array(0.0), burst, (), optax.sgd(1.0), steps=9, key=KEY, progress=False)


def test_a_checkpoint_of_another_run_is_refused_by_name(tmp_path):
    path = tmp_path / "run.ckpt"
    wave = lambda rate, last: optax.adam(optax.cosine_decay_schedule(rate, last))  # noqa: E731
    arguments = {"loss": loss, "optimiser": wave(0.05, 100), "checkpoint": path}
    run(**arguments, steps=4)
    for changes, names in (
        ({"optimiser": wave(0.06, 100)}, "optimiser"),
        ({"optimiser": wave(0.05, 200)}, "optimiser"),  # the first steps differ by less than one part in a thousand
        ({"optimiser": optax.sgd(0.05)}, "optimiser"),
        ({"loss": "squared"}, "loss"),
        ({"loss": lambda output, target: 2 * loss(output, target)}, "loss"),
        ({"reduction": "sum"}, "loss"),
        ({"data": (X + 1e-6, Y)}, "data"),
        ({"key": jax.random.key(1)}, "key"),
        ({"batch_size": 4}, r"batch_size \(5, not 4\)"),
        ({"every": 2}, r"every \(4, not 2\)"),
        ({"network": MLP((2, 6, 1), nets.tanh, key=KEY), "key": jax.random.key(1)}, "network, key"),
    ):
        with pytest.raises(ValueError, match=f"is of a run with another {names}: give the arguments of that run"):
            run(**arguments | changes)
    assert len(run(**arguments | {"optimiser": wave(0.05, 100)}).losses) == 12  # the same, written anew


def test_under_other_versions_functions_are_compared_by_what_they_compute(tmp_path):
    path = tmp_path / "run.ckpt"
    run(loss=loss, checkpoint=path, steps=4)
    head, _, rest = path.read_bytes().partition(b"\n")
    header = json.loads(head)
    header |= {"versions": "3.9.1", "loss": "another", "optimiser": "another"}
    path.write_bytes(json.dumps(header).encode() + b"\n" + rest)
    with pytest.raises(ValueError, match="with another optimiser: give"):
        run(loss=loss, checkpoint=path, optimiser=optax.adam(0.051))
    with pytest.raises(ValueError, match="with another loss: give"):
        run(loss="squared", checkpoint=path)
    assert len(run(loss=loss, checkpoint=path).losses) == 12


def test_a_second_run_compiles_nothing():
    traces = []

    def once(rate):
        def counted(output, target):
            traces.append(1)
            return loss(output, target)

        traces.clear()  # what a function encloses counts: a longer list is another function
        run(loss=counted, optimiser=optax.adam(rate), measure=lambda network: mean_of(network, X, Y))
        return len(traces)

    first = once(0.05)
    assert first > 0
    assert once(0.05) == 0
    assert once(0.06) == first


def test_bad_input(tmp_path):
    path = tmp_path / "run.ckpt"
    run(loss=loss, checkpoint=path)
    damaged, old = tmp_path / "damaged.ckpt", tmp_path / "old.ckpt"
    damaged.write_bytes(path.read_bytes()[:-40])
    old.write_bytes(path.read_bytes().replace(b"corollary training, 2", b"corollary training, 1"))
    for changes, sentence in (
        ({"loss": 3}, "loss must be a name, a function of one output and one target, or a BatchLoss, got int"),
        ({"batch_size": 17}, "batch_size must be from 1 to 16, got 17"),
        ({"loss": noisy, "data": (), "batch_size": 1}, "data must hold at least one array"),
        ({"key": None}, "key must be given with batch_size"),
        ({"state": jnp.zeros(2)}, "a state needs a BatchLoss whose function takes state="),
        (
            {"loss": BatchLoss(lambda n, b, state: 0.0), "state": jnp.zeros(2), "measure": None},
            "must return the pair of its value and",
        ),
        ({"patience": 1, "measure": None}, "patience needs a measure"),
        ({"patience": 1, "measure": lambda m: jnp.zeros(2)}, "measure must return one number"),
        ({"checkpoint": damaged}, "is damaged, or no checkpoint of this version"),
        ({"checkpoint": old}, "is damaged, or no checkpoint of this version"),
        ({"checkpoint": tmp_path}, "cannot be read"),
    ):
        with pytest.raises((TypeError, ValueError), match=sentence):
            run(**({"loss": loss} | changes))
