import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from corollary import nets
from corollary.nets import MLP, train

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(16, 2)), RNG.normal(size=16)
SGD = optax.sgd(0.1)


def loss(model, x, y):
    return jnp.mean((jax.vmap(model)(x)[:, 0] - y) ** 2)


def linear_loss(theta, x, y):
    return jnp.mean((x @ theta - y) ** 2)


@pytest.mark.parametrize("optimiser", [SGD, optax.adam(0.05), optax.adamw(0.05, weight_decay=0.1)])
def test_takes_the_steps_of_a_plain_loop(optimiser):
    model = MLP((2, 5, 1), nets.tanh, key=KEY)
    result = train(model, loss, (X, Y), optimiser, steps=7, measure=lambda m: m.layers[0].weight)
    state, losses, weights = optimiser.init(model), [], [model.layers[0].weight]
    for _ in range(7):
        value, slope = jax.value_and_grad(loss)(model, jnp.asarray(X), jnp.asarray(Y))
        updates, state = optimiser.update(slope, state, model)
        model = optax.apply_updates(model, updates)
        losses.append(value)
        weights.append(model.layers[0].weight)
    np.testing.assert_allclose(result.losses, losses, rtol=1e-10)
    np.testing.assert_allclose(result.record, np.stack(weights), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(result.model(X[0]), model(X[0]), rtol=1e-9)


def test_gradient_of_plain_arrays_by_numpy():
    start = np.array([1.0, -1.0])
    result = train(start, linear_loss, (X, Y), SGD, steps=1)
    np.testing.assert_allclose(result.model, start - 0.1 * 2 * X.T @ (X @ start - Y) / 16, rtol=1e-12)


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
        return train(MLP((2, 4, 1), nets.relu, key=key), loss, (X, Y), SGD, steps=5, key=key, batch=3)

    keys = jax.random.split(KEY, 3)
    many = jax.jit(jax.vmap(one))(keys)
    for i in range(3):
        single = one(keys[i])
        np.testing.assert_allclose(many.losses[i], single.losses, rtol=1e-10)
        np.testing.assert_allclose(many.model.layers[0].weight[i], single.model.layers[0].weight, rtol=1e-9, atol=1e-12)


def test_batches_are_drawn_uniformly():
    n, steps = 5, 4000
    counts = train(
        np.zeros(n), lambda c, i: -jnp.sum(c[i]), (np.arange(n),), optax.sgd(1.0), steps=steps, key=KEY, batch=2
    ).model
    assert counts.sum() == 2 * steps
    # binomial with 8000 trials and probability 1/5: standard deviation 36, five of them
    np.testing.assert_allclose(counts, 2 * steps / n, atol=180)


def test_batch_keys_differ_between_steps_and_runs():
    runs = [train(np.zeros(2), linear_loss, (X, Y), SGD, steps=4, key=jax.random.key(i), batch=2) for i in (0, 0, 1)]
    np.testing.assert_array_equal(runs[0].losses, runs[1].losses)
    assert (runs[0].losses != runs[2].losses).any()


def test_stochastic_loss_gets_a_fresh_key():
    def noisy(theta, key):
        return theta * jax.random.normal(key)

    result = train(np.array(0.0), noisy, (), optax.sgd(1.0), steps=100, key=KEY, stochastic=True, measure=lambda t: t)
    steps = np.diff(result.record)
    assert len(np.unique(steps)) == 100
    assert 0.7 < steps.std() < 1.3


def test_only_what_is_trainable_moves():
    model = MLP((2, 4, 1), nets.tanh, key=KEY)
    outer = eqx.tree_at(lambda m: m.layers[1].weight, jax.tree.map(lambda _: False, model), True)
    result = train(model, loss, (X, Y), SGD, steps=3, trainable=outer).model
    np.testing.assert_array_equal(result.layers[0].weight, model.layers[0].weight)
    assert (result.layers[1].weight != model.layers[1].weight).any()


def test_whole_numbers_and_functions_stay():
    model = {"w": jnp.ones(2), "n": jnp.arange(3), "f": jnp.sin}
    result = train(model, lambda m, x: jnp.sum(m["f"](m["w"] @ x.T) * m["n"][1]), (X,), SGD, steps=2).model
    np.testing.assert_array_equal(result["n"], [0, 1, 2])
    assert result["f"] is jnp.sin


def test_compiles_once():
    traces = []

    def counted(theta, x, y):
        traces.append(1)
        return linear_loss(theta, x, y)

    for seed in range(3):
        train(np.full(2, float(seed)), counted, (X, Y), SGD, steps=2)
    assert len(traces) <= 2  # one trace may be taken twice, for the shapes and for the derivative


def test_bad_input():
    start = np.zeros(2)
    with pytest.raises(TypeError, match="loss must be a function"):
        train(start, 3, (X, Y), SGD, steps=1)
    with pytest.raises(TypeError, match="data must be a tuple of arrays"):
        train(start, linear_loss, X, SGD, steps=1)
    with pytest.raises(ValueError, match="data must be arrays with the same first axis"):
        train(start, linear_loss, (X, Y[:3]), SGD, steps=1)
    with pytest.raises(TypeError, match="optimiser must be an Optax transformation"):
        train(start, linear_loss, (X, Y), 0.1, steps=1)
    with pytest.raises(ValueError, match="steps must be at least 1"):
        train(start, linear_loss, (X, Y), SGD, steps=0)
    with pytest.raises(TypeError, match="measure must be a function"):
        train(start, linear_loss, (X, Y), SGD, steps=1, measure=1)
    with pytest.raises(ValueError, match="every must divide steps"):
        train(start, linear_loss, (X, Y), SGD, steps=5, measure=jnp.sum, every=2)
    with pytest.raises(ValueError, match="batch needs data"):
        train(start, lambda t: t.sum(), (), SGD, steps=1, key=KEY, batch=2)
    with pytest.raises(ValueError, match="batch must be at least 1"):
        train(start, linear_loss, (X, Y), SGD, steps=1, key=KEY, batch=0)
    with pytest.raises(TypeError, match="key must be given"):
        train(start, linear_loss, (X, Y), SGD, steps=1, batch=2)
    with pytest.raises(TypeError, match="key must be given"):
        train(start, linear_loss, (X, Y), SGD, steps=1, stochastic=True)
    with pytest.raises(ValueError, match="loss must return a number"):
        train(start, lambda t, x, y: x @ t - y, (X, Y), SGD, steps=1)
    with pytest.raises(ValueError, match="model must have at least one floating-point array"):
        train(jnp.arange(2), linear_loss, (X, Y), SGD, steps=1)
