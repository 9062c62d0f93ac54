import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from corollary import nets
from corollary.nets import MLP, Trained, train
from corollary.network import BatchLoss, Network

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(16, 2)), RNG.normal(size=16)
SGD = optax.sgd(0.1)


def loss(output, target):
    return (output[0] - target) ** 2


def mean_of(model, x, y):
    return jnp.mean((jax.vmap(model)(x)[:, 0] - y) ** 2)


@BatchLoss
def linear_loss(theta, batch):
    x, y = batch
    return jnp.mean((x @ theta - y) ** 2)


@pytest.mark.parametrize("optimiser", [SGD, optax.adam(0.05), optax.adamw(0.05, weight_decay=0.1)])
def test_takes_the_steps_of_a_plain_loop(optimiser):
    model = MLP((2, 5, 1), nets.tanh, key=KEY)
    result = train(model, loss, (X, Y), optimiser, steps=7, measure=lambda m: m.layers[0].weight)
    state, losses, weights = optimiser.init(model), [], [model.layers[0].weight]
    for _ in range(7):
        value, slope = jax.value_and_grad(mean_of)(model, jnp.asarray(X), jnp.asarray(Y))
        updates, state = optimiser.update(slope, state, model)
        model = optax.apply_updates(model, updates)
        losses.append(value)
        weights.append(model.layers[0].weight)
    np.testing.assert_allclose(result.losses, losses, rtol=1e-10)
    np.testing.assert_allclose(result.record, np.stack(weights), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(result.network(X[0]), model(X[0]), rtol=1e-9)


def test_gradient_of_plain_arrays_by_numpy():
    start = np.array([1.0, -1.0])
    result = train(start, linear_loss, (X, Y), SGD, steps=1)
    np.testing.assert_allclose(result.network, start - 0.1 * 2 * X.T @ (X @ start - Y) / 16, rtol=1e-12)


def test_record_every_so_many_steps():
    result = train(np.zeros(2), linear_loss, (X, Y), SGD, steps=12, measure=lambda t: {"t": t, "one": 1.0}, every=4)
    whole = train(np.zeros(2), linear_loss, (X, Y), SGD, steps=12, measure=lambda t: t)
    np.testing.assert_allclose(result.record["t"], whole.record[::4])
    assert result.record["one"].shape == (4,)
    np.testing.assert_allclose(result.losses, whole.losses)
    assert result.losses.shape == (12,)
    assert train(np.zeros(2), linear_loss, (X, Y), SGD, steps=3).record is None


def test_ensemble_is_one_vmap():
    def one(key):
        return train(MLP((2, 4, 1), nets.relu, key=key), loss, (X, Y), SGD, steps=5, key=key, batch_size=3)

    keys = jax.random.split(KEY, 3)
    many = jax.jit(jax.vmap(one))(keys)
    for i in range(3):
        single = one(keys[i])
        np.testing.assert_allclose(many.losses[i], single.losses, rtol=1e-10)
        weights = many.network.layers[0].weight[i], single.network.layers[0].weight
        np.testing.assert_allclose(*weights, rtol=1e-9, atol=1e-12)


def test_batches_are_drawn_uniformly():
    n, steps = 5, 4000
    drawn = BatchLoss(lambda c, i: -jnp.sum(c[i]))
    counts = train(np.zeros(n), drawn, np.arange(n), optax.sgd(1.0), steps=steps, key=KEY, batch_size=2).network
    assert counts.sum() == 2 * steps
    # binomial with 8000 trials and probability 1/5: standard deviation 36, five of them
    np.testing.assert_allclose(counts, 2 * steps / n, atol=180)


def test_batch_keys_differ_between_steps_and_runs():
    keys = [jax.random.key(i) for i in (0, 0, 1)]
    runs = [train(np.zeros(2), linear_loss, (X, Y), SGD, steps=4, key=key, batch_size=2) for key in keys]
    np.testing.assert_array_equal(runs[0].losses, runs[1].losses)
    assert (runs[0].losses != runs[2].losses).any()


def test_a_loss_that_takes_a_key_gets_a_fresh_one():
    @BatchLoss
    def noisy(theta, _, *, key):
        return theta * jax.random.normal(key)

    result = train(np.array(0.0), noisy, (), optax.sgd(1.0), steps=100, key=KEY, measure=lambda t: t)
    steps = np.diff(result.record)
    assert len(np.unique(steps)) == 100
    assert 0.7 < steps.std() < 1.3


def test_only_what_is_trainable_moves():
    model = MLP((2, 4, 1), nets.tanh, key=KEY)
    outer = eqx.tree_at(lambda m: m.layers[1].weight, jax.tree.map(lambda _: False, model), True)
    result = train(model, loss, (X, Y), SGD, steps=3, trainable=outer).network
    np.testing.assert_array_equal(result.layers[0].weight, model.layers[0].weight)
    assert (result.layers[1].weight != model.layers[1].weight).any()


def test_whole_numbers_and_functions_stay():
    model = {"w": jnp.ones(2), "n": jnp.arange(3), "f": jnp.sin}
    loss = BatchLoss(lambda m, x: jnp.sum(m["f"](m["w"] @ x.T) * m["n"][1]))
    result = train(model, loss, X, SGD, steps=2).network
    np.testing.assert_array_equal(result["n"], [0, 1, 2])
    assert result["f"] is jnp.sin


def test_buffers_of_a_network_are_not_trained():
    network = Network(lambda params, scale, x: scale * x @ params, np.ones(2), np.array(3.0))
    result = train(network, "squared", (X, Y), SGD, steps=2).network
    assert result.buffers == 3.0
    slope = np.mean((3 * X @ np.ones(2) - Y)[:, None] * 3 * X, 0)
    np.testing.assert_allclose(train(network, "squared", (X, Y), SGD, steps=1).network.params, 1 - 0.1 * slope)


def test_a_network_that_takes_a_key_gets_one_per_example():
    class Noisy(eqx.Module):
        w: jax.Array

        def __call__(self, x, *, key=None):
            return self.w * (0.0 if key is None else jax.random.normal(key))

    seen = train(Noisy(jnp.array(0.0)), lambda out, _: out, (X, Y), optax.sgd(1.0), steps=50, key=KEY, measure=_weight)
    steps = np.diff(seen.record)  # each is the mean of 16 normal numbers: deviation 1/4
    assert len(np.unique(steps)) == 50
    assert 0.15 < steps.std() < 0.35
    still = train(Noisy(jnp.array(1.0)), lambda out, _: out, (X, Y), SGD, steps=1)
    assert still.losses[0] == 0


def _weight(network):
    return network.w


def test_dropout_acts_with_a_key_alone():
    network = eqx.nn.Sequential([eqx.nn.Linear(2, 32, key=KEY), eqx.nn.Dropout(0.5), eqx.nn.Linear(32, 1, key=KEY)])
    with_noise = train(network, "squared", (X, Y), SGD, steps=1, key=KEY).losses[0]
    quiet = train(eqx.nn.inference_mode(network), "squared", (X, Y), SGD, steps=1, key=KEY).losses[0]
    mean = np.mean([0.5 * (eqx.nn.inference_mode(network)(x)[0] - y) ** 2 for x, y in zip(X, Y, strict=True)])
    np.testing.assert_allclose(quiet, mean, rtol=1e-6)
    assert abs(with_noise - quiet) > 1e-3


def test_the_sum_on_request():
    network = MLP((2, 4, 1), nets.tanh, key=KEY)
    one, all_of_them = (train(network, "squared", (X, Y), SGD, steps=1, reduction=r).losses for r in ("mean", "sum"))
    np.testing.assert_allclose(all_of_them, 16 * one, rtol=1e-12)


def test_a_method_may_ask_for_more_than_the_gradient():
    """SVRG's direction in one step from where the full gradient was taken: that gradient."""

    def update(slope, state, params, *, value, gradient_fn, full_gradient_fn, **_):
        same = jax.tree.map(lambda a, b: a - b, slope, gradient_fn(params))
        return jax.tree.map(lambda s, g: -s - value * g, same, full_gradient_fn(params)), state

    method = optax.GradientTransformationExtraArgs(lambda params: (), update)
    for size in (5, None):
        found = train(np.ones(2), linear_loss, (X, Y), method, steps=1, key=KEY, batch_size=size)
        full = 2 * X.T @ (X @ np.ones(2) - Y) / 16
        np.testing.assert_allclose(found.network, 1 - found.losses[0] * full, rtol=1e-10)


TRACES = []


def _counted(output, target):
    TRACES.append(1)
    return loss(output, target)


def _traces(run):
    TRACES.clear()
    run()
    return len(TRACES)


def test_compiles_once_for_the_same_code_and_shapes():
    def run(seed, rate=0.1, weight=1.0):
        network = MLP((2, 3, 1), nets.tanh, key=jax.random.key(seed))
        weighted = lambda output, target: weight * _counted(output, target)  # noqa: E731
        train(network, weighted, (X + seed, Y), optax.adam(rate), steps=2, measure=lambda n: n(X[0]))

    first = _traces(lambda: run(0))
    assert first > 0
    assert _traces(lambda: run(1)) == 0
    assert _traces(lambda: run(1, rate=0.2)) == first
    assert _traces(lambda: run(1, weight=2.0)) == first


def test_what_a_loss_encloses_may_change_between_runs():
    scales = [1.0]
    table = np.ones(1)
    changing = BatchLoss(lambda theta, batch: scales[0] * table[0] * linear_loss(theta, batch))
    first = train(np.ones(2), changing, (X, Y), SGD, steps=1).losses[0]
    scales[0] = 2.0
    assert train(np.ones(2), changing, (X, Y), SGD, steps=1).losses[0] == 2 * first
    table[0] = 2.0
    assert train(np.ones(2), changing, (X, Y), SGD, steps=1).losses[0] == 4 * first


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"loss": 3}, "loss must be a name, a function of one output and one target, or a BatchLoss, got int"),
        ({"loss": "cubic"}, "loss must be one of"),
        ({"loss": loss}, r"network must be callable with one example, got ndarray: make one with Network"),
        ({"network": jnp.sum, "loss": loss, "data": X}, r"data must be a pair \(x, y\)"),
        ({"data": (X, Y[:3]), "batch_size": 2, "key": KEY}, "data must hold arrays with the examples along one common"),
        ({"data": (X, "abc")}, r"data\[1\] must be an array of numbers, got str"),
        ({"optimiser": 0.1}, "optimiser must be an Optax transformation, got float"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"measure": 1}, "measure must be a function of the network, got int"),
        ({"steps": 5, "measure": jnp.sum, "every": 2}, "every must divide steps"),
        ({"data": (), "key": KEY, "batch_size": 2}, "data must hold at least one array"),
        ({"key": KEY, "batch_size": 0}, "batch_size must be at least 1"),
        ({"batch_size": 2}, "key must be given with batch_size"),
        ({"loss": BatchLoss(lambda t, b, key: t.sum())}, "key must be given with batch_size or with a BatchLoss that"),
        ({"loss": BatchLoss(lambda t, b: b[0] @ t - b[1])}, "loss must return a number, got shape"),
        ({"network": jnp.arange(2)}, "network must have at least one floating-point array"),
        ({"reduction": "sum"}, "reduction must be left out with a BatchLoss"),
        (
            {"network": eqx.nn.Linear(2, 3, key=KEY), "loss": "cross_entropy", "data": (X, np.arange(16) % 4)},
            "targets must hold labels from 0 to 2, got 3 at index 3",
        ),
    ],
)
def test_bad_input(changes, sentence):
    arguments = {"network": np.zeros(2), "loss": linear_loss, "data": (X, Y), "optimiser": SGD, "steps": 1} | changes
    with pytest.raises((TypeError, ValueError), match=sentence):
        train(**arguments)


def test_plot_of_one_run_and_of_an_ensemble():
    spec = Trained(None, jnp.asarray([9.0, 3.0, 0.01]), None).plot().to_dict()
    assert [(r["step"], r["loss"]) for r in spec["data"]["values"]][:2] == [(0, 9.0), (1, 3.0)]
    assert spec["encoding"]["y"]["scale"]["type"] == "log"
    assert "color" not in spec["encoding"]
    many = Trained(None, jnp.ones((2, 1200)), None).plot().to_dict()
    assert len(many["data"]["values"]) == 1000
    assert many["encoding"]["color"]["field"] == "run"
    with pytest.raises(ValueError, match="one run or of a row"):
        Trained(None, jnp.ones((2, 2, 2)), None).plot()
