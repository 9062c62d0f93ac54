"""The curvature of a loss as a linear map that is never formed: Hessian and Gauss-Newton matrix of any network."""

import itertools
import subprocess
import sys
import textwrap
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.stats import wasserstein_distance

from corollary import BatchLoss, Network
from corollary.landscape import gauss_newton, hessian, hessian_of


def draw(key, sizes, dtype=float):
    keys = jax.random.split(key, len(sizes) - 1)
    shapes = zip(keys, itertools.pairwise(sizes), strict=True)
    return [(jax.random.normal(k, s, dtype) / s[0] ** 0.5, jnp.zeros(s[1], dtype)) for k, s in shapes]


def apply(params, x):
    for w, b in params[:-1]:
        x = jnp.tanh(x @ w + b)
    return x @ params[-1][0] + params[-1][1]


def network(params):
    return Network(apply, params)


def loss(params, batch):
    """Written out, for the references."""
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(apply(params, batch[0])), batch[1][:, None], 1))


def examples(key, n, d, classes, dtype=float):
    x_key, y_key = jax.random.split(key)
    return jax.random.normal(x_key, (n, d), dtype), jax.random.randint(y_key, (n,), 0, classes)


@pytest.fixture(scope="module")
def small():
    """A network of 1,355 parameters with its dense Hessian, by `jax.hessian` of the flat loss."""
    with jax.enable_x64(True):
        params, data = draw(jax.random.key(0), (20, 30, 20, 5)), examples(jax.random.key(1), 100, 20, 5)
        flat, unravel = ravel_pytree(params)
        exact = jax.jit(jax.hessian(lambda theta: loss(unravel(theta), data)))(flat)
        return params, data, np.asarray(exact), np.linalg.eigvalsh(exact)


@pytest.mark.parametrize("batch_size", [4096, 32, 25, 1])
def test_products_are_those_of_the_hessian_whatever_the_batches(small, batch_size):
    params, data, exact, _ = small
    with jax.enable_x64(True):
        operator = hessian(network(params), "cross_entropy", data, batch_size=batch_size)
        vectors = jax.random.normal(jax.random.key(2), (operator.size, 3))
        assert operator.shape == exact.shape
        np.testing.assert_allclose(operator @ vectors, exact @ vectors, atol=1e-13)
        np.testing.assert_allclose(operator @ vectors[:, 0], exact @ vectors[:, 0], atol=1e-13)
        unravel = ravel_pytree(params)[1]
        tree = operator.matvec(network(unravel(vectors[:, 0])))
        np.testing.assert_allclose(ravel_pytree(tree)[0], exact @ vectors[:, 0], atol=1e-13)
        np.testing.assert_allclose(operator.value(), loss(params, data), rtol=1e-13)
        gradient = ravel_pytree(jax.jit(jax.grad(loss))(params, data))[0]
        np.testing.assert_allclose(ravel_pytree(operator.gradient())[0], gradient, atol=1e-14)


def test_extreme_eigenvalues_to_a_millionth_and_better(small):
    params, data, exact, spectrum = small
    with jax.enable_x64(True):
        operator = hessian(network(params), "cross_entropy", data)
        wanted = {
            "largest": spectrum[::-1][:6],
            "smallest": spectrum[:6][::-1],
            "both": np.r_[spectrum[::-1][:3], spectrum[:3][::-1]],
            "magnitude": np.sort(spectrum[np.argsort(-np.abs(spectrum))[:6]])[::-1],
        }
        for which, values in wanted.items():
            found = operator.top(6, which=which, tolerance=1e-8)
            assert found.converged
            np.testing.assert_allclose(found.values, values, rtol=1e-6)
            np.testing.assert_allclose(found.vectors @ found.vectors.T, np.eye(6), atol=1e-12)
            residuals = np.linalg.norm(exact @ found.vectors.T - found.vectors.T * found.values, axis=0)
            np.testing.assert_allclose(found.residuals, residuals, atol=1e-11)


def test_float32_reaches_its_own_accuracy(small):
    params, data, _, spectrum = small
    single = jax.tree.map(lambda a: np.asarray(a, np.float32), params)
    operator = hessian(
        network(single), "cross_entropy", (np.asarray(data[0], np.float32), np.asarray(data[1], np.int32))
    )
    found = operator.top(4, which="both")
    assert found.values.dtype == jnp.float32
    # float32 carries 6e-8 of the largest eigenvalue, times the rounding of sums over 100 examples
    np.testing.assert_allclose(found.values, spectrum[[-1, -2, 1, 0]], atol=1e-6 * spectrum[-1] * 10)


@pytest.mark.parametrize("seed", range(3))
def test_density_in_wasserstein_distance(small, seed):
    params, data, _, spectrum = small
    with jax.enable_x64(True):
        found = hessian(network(params), "cross_entropy", data).density(key=jax.random.key(seed))
        np.testing.assert_allclose(found.weights.sum(1), 1, rtol=1e-12)
        distance = wasserstein_distance(np.ravel(found.nodes), spectrum, np.ravel(found.weights))
        assert distance <= 0.02 * (spectrum[-1] - spectrum[0])
        grid = jnp.linspace(spectrum[0] - 1, spectrum[-1] + 1, 4000)
        np.testing.assert_allclose(np.trapezoid(found.smooth(grid, 0.05), grid), 1, rtol=1e-6)
        assert 0 < found.mass_below(0.0) < 1


@pytest.mark.parametrize("method", ["hutchinson", "hutch++"])
def test_trace_within_its_standard_error(small, method):
    params, data, exact, _ = small
    with jax.enable_x64(True):
        operator = hessian(network(params), "cross_entropy", data)
        estimates = [operator.trace(key=jax.random.key(seed), probes=96, method=method) for seed in range(8)]
        for estimate in estimates:
            # Student's t with at least 31 degrees of freedom: beyond 6 once in a million
            assert abs(estimate.value - np.trace(exact)) < 6 * estimate.error


@pytest.mark.parametrize("batch_size", [4096, 32])
def test_gauss_newton_is_the_product_of_its_factors(small, batch_size):
    params, data, exact, _ = small
    with jax.enable_x64(True):
        operator = gauss_newton(network(params), "cross_entropy", data, batch_size=batch_size)
        flat, unravel = ravel_pytree(params)
        x = data[0]
        jacobian = jax.jit(jax.jacobian(lambda theta: apply(unravel(theta), x)))(flat)
        p = jax.nn.softmax(apply(params, x))
        outer = jnp.eye(5) * p[:, None] - p[:, :, None] * p[:, None, :]
        expected = jnp.einsum("nip,nij,njq->pq", jacobian, outer, jacobian, optimize=True) / len(x)
        np.testing.assert_allclose(operator.dense(), expected, atol=1e-13)
        assert np.abs(exact - expected).max() > 1e-3  # the Hessian is another matrix


def test_parameters_of_any_kind_and_fixed_leaves():
    with jax.enable_x64(True):
        model = eqx.nn.MLP(2, 1, 4, 1, key=jax.random.key(0))
        x = jax.random.normal(jax.random.key(1), (10, 2))

        operator = hessian(model, "squared", (x, jnp.zeros((10, 1))))
        assert operator.size == 2 * 4 + 4 + 4 + 1
        np.testing.assert_allclose(operator.dense(), operator.dense().T, atol=1e-15)
        image = operator.matvec(jax.tree.map(lambda a: a * 1.0 if eqx.is_inexact_array(a) else a, model))
        assert image.layers[0].weight.shape == (4, 2)
        last = hessian(model, "squared", (x, jnp.zeros((10, 1))), trainable=_last_layer(model))
        np.testing.assert_allclose(last.dense(), operator.dense()[-5:, -5:], atol=1e-14)
        total = hessian(model, "squared", (x, jnp.zeros((10, 1))), batch_size=4, reduction="sum")
        np.testing.assert_allclose(total.dense(), 10 * operator.dense(), atol=1e-13)
        np.testing.assert_allclose(total.value(), 10 * operator.value(), rtol=1e-13)
        at = {"a": jnp.ones(2), "b": jnp.ones(()), "n": 2}
        bowl = hessian_of(lambda w: jnp.sum(w["a"] ** 2) + 3 * w["n"] * w["b"] ** 2, at)
        np.testing.assert_allclose(np.sort(np.linalg.eigvalsh(bowl.dense())), [2, 2, 12])


def _last_layer(model):
    nothing = jax.tree.map(lambda _: False, model)
    return eqx.tree_at(lambda m: (m.layers[-1].weight, m.layers[-1].bias), nothing, (True, True))


class Normalised(eqx.Module):
    """A layer, a batch normalisation, a layer: training mode normalises by the batch at hand."""

    first: jax.Array
    last: jax.Array

    def __call__(self, x, mean=None, variance=None):
        h = x @ self.first
        mean, variance = (h.mean(0), h.var(0)) if mean is None else (mean, variance)
        return jnp.tanh((h - mean) / jnp.sqrt(variance + 1e-3)) @ self.last


def test_batch_statistics_frozen_or_recomputed():
    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(0), 4)
        model = Normalised(jax.random.normal(keys[0], (3, 5)), jax.random.normal(keys[1], (5, 1)))
        x, y = jax.random.normal(keys[2], (60, 3)), jax.random.normal(keys[3], (60, 1))
        h = x @ model.first
        mean, variance = h.mean(0), h.var(0)

        def recomputed(model, batch):
            return jnp.mean((model(batch[0]) - batch[1]) ** 2)

        def frozen(model, batch):
            return jnp.mean((model(batch[0], mean, variance) - batch[1]) ** 2)

        flat, unravel = ravel_pytree(model)

        def dense(loss, batch):
            return jax.jit(jax.hessian(lambda theta, batch: loss(unravel(theta), batch)))(flat, batch)

        with pytest.raises(ValueError, match="examples see each other through batch statistics"):
            hessian(model, BatchLoss(recomputed), (x, y))
        still = hessian(model, BatchLoss(frozen), (x, y), batch_size=20)
        assert "batch statistics frozen" in repr(still)
        np.testing.assert_allclose(still.dense(), dense(frozen, (x, y)), atol=1e-12)
        moving = hessian(model, BatchLoss(recomputed), (x, y), batch_size=20, statistics="recomputed")
        assert "batch statistics recomputed" in repr(moving)
        per_batch = [dense(recomputed, (x[i : i + 20], y[i : i + 20])) for i in (0, 20, 40)]
        np.testing.assert_allclose(moving.dense(), sum(per_batch) / 3, atol=1e-12)
        one = hessian(model, BatchLoss(recomputed), (x, y), statistics="recomputed")
        np.testing.assert_allclose(one.dense(), dense(recomputed, (x, y)), atol=1e-12)
        # the two are different matrices: normalising by the batch adds the derivatives of its statistics
        assert np.abs(one.dense() - still.dense()).max() > 1e-2


def test_equinox_batch_norm_in_both_modes():
    with jax.enable_x64(True):
        model, state = eqx.nn.make_with_state(
            lambda key: eqx.nn.Sequential([eqx.nn.Linear(3, 4, key=key), eqx.nn.BatchNorm(4, "batch", mode="batch")])
        )(jax.random.key(0))
        x = jax.random.normal(jax.random.key(1), (40, 3))
        train = lambda m, x: jax.vmap(m, (0, None), (0, None), axis_name="batch")(x, state)[0]  # noqa: E731
        _, state_after = jax.vmap(model, (0, None), (0, None), axis_name="batch")(x, state)
        y = jnp.zeros((40, 4))

        def loss(model, batch):
            return jnp.mean(jnp.sum(jnp.tanh(train(model, batch[0])) ** 2, 1))

        def still(model, batch):
            outputs = jax.vmap(lambda a: model(a, state_after)[0])(batch[0])
            return jnp.mean(jnp.sum(jnp.tanh(outputs) ** 2, 1))

        recomputed = hessian(model, BatchLoss(loss), (x, y), statistics="recomputed")
        frozen = hessian(model, BatchLoss(still), (x, y))  # in inference mode: with the statistics of the state
        read = hessian(Network.from_equinox(model, state_after), lambda f, y: jnp.sum(jnp.tanh(f) ** 2), (x, y))
        assert recomputed.size == frozen.size == read.size == 24
        np.testing.assert_allclose(frozen.dense(), read.dense(), atol=1e-13)
        assert np.abs(recomputed.dense() - frozen.dense()).max() > 1e-2
        with pytest.raises(ValueError, match="batch statistics"):
            hessian(model, BatchLoss(lambda m, batch: loss(eqx.nn.inference_mode(m, False), batch)), (x, y))


def test_batches_bound_the_memory_of_activations():
    """Ten times the data, the same batch: the temporary memory stays."""
    params = draw(jax.random.key(0), (20, 64, 5), jnp.float32)

    def memory(n):
        data = examples(jax.random.key(1), n, 20, 5, jnp.float32)
        operator = hessian(network(params), "cross_entropy", data, batch_size=200)
        vector = jnp.ones(operator.size, jnp.float32)
        compiled = eqx.filter_jit(lambda op, v: op.linearised()(v)).lower(operator, vector).compile()
        return compiled.compiled.memory_analysis().temp_size_in_bytes

    few, many = memory(2_000), memory(20_000)
    assert many <= few * 1.05 + 4096


def test_several_devices_share_each_batch(four_devices):
    script = """
        import jax, jax.numpy as jnp, numpy as np
        assert jax.device_count() == 4
        from corollary import Network
        from corollary.landscape import hessian
        x = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)
        w = jnp.arange(1.0, 4.0)
        network = Network(lambda w, x: jnp.tanh(x @ w), w)
        operator = hessian(network, lambda f, y: f**2, (x, x[:, 0]), batch_size=24)
        assert len(operator.batches[0].sharding.device_set) == 4, operator.batches[0].sharding
        exact = jax.hessian(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(w)
        np.testing.assert_allclose(operator.dense(), exact, atol=1e-5)
        np.testing.assert_allclose(operator.top(1).values[0], np.linalg.eigvalsh(exact)[-1], rtol=1e-4)
        print("shared")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env=four_devices,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "shared" in done.stdout, done.stderr


class Counted(eqx.Module):
    """Cross-entropy that knows how often it was traced."""

    traced: ClassVar = []

    def __call__(self, output, label):
        self.traced.append(1)
        return -jax.nn.log_softmax(output)[label]


def test_one_loss_one_program(small):
    """Another point of the same network and loss does not compile again: the operator is an argument."""
    params, data, _, _ = small
    with jax.enable_x64(True):
        counted, traced = Counted(), Counted.traced

        def operator_at(scale):
            # written anew each time: functions are compared by what they do
            moved = jax.tree.map(lambda a: scale * a, params)
            return hessian(Network(lambda p, x: apply(p, x), moved), lambda f, y: counted(f, y), data)

        vector = jnp.ones(1355)
        operator_at(1) @ vector
        operator_at(2) @ vector
        before = len(traced)
        operator = operator_at(3)
        constructed = len(traced)
        operator @ vector
        assert len(traced) == constructed
        assert constructed - before <= 1  # the shape of the loss is looked at, nothing is compiled


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda n, d: hessian(n, 3, d), "loss must be a name, a function of one output and one target, or a BatchLoss"),
        (
            lambda n, d: hessian(n, "cross entropy", d),
            "loss must be one of 'cross_entropy', 'binary_cross_entropy', 'squared'",
        ),
        (lambda n, d: hessian([jnp.ones(3)], "squared", d), "network must be callable"),
        (lambda n, d: hessian(network([jnp.arange(3)]), "squared", d), "at least one floating-point array"),
        (lambda n, d: hessian(jax.tree.map(lambda a: a * np.nan, n), "cross_entropy", d), "must be finite"),
        (lambda n, d: hessian(n, "cross_entropy", (d[0] * np.inf, d[1])), "data.* must be finite"),
        (lambda n, d: hessian(n, "cross_entropy", (d[0], d[1][:-1])), "one common first axis"),
        (lambda n, d: hessian(n, "cross_entropy", (d[0][:0], d[1][:0])), "data must not be empty"),
        (
            lambda n, d: hessian(n, "cross_entropy", (d[0][:, :3], d[1])),
            r"network\(x\) failed for one example",
        ),
        (lambda n, d: hessian(n, "cross_entropy", d, batch_size=0), "batch_size must be at least 1"),
        (lambda n, d: hessian(n, "cross_entropy", d, reduction="max"), "reduction must be one of"),
        (lambda n, d: hessian(n, lambda f, y: f, d), "loss must return one number per example"),
        (lambda n, d: hessian(n, BatchLoss(lambda n, b: n(b[0])), d), "loss must return a real number"),
        (lambda n, d: hessian(n, BatchLoss(lambda n, b: jnp.sum(n(b[0]) ** 2)), d), "either it is a sum"),
        (lambda n, d: hessian(n, lambda f, y: jnp.log(-jnp.exp(f[0])), d), "loss must be finite"),
        (lambda n, d: hessian(n, "cross_entropy", d, statistics="moving"), "statistics must be one of"),
        (lambda n, d: hessian(n, "cross_entropy", d) @ jnp.ones(3), r"vectors must have shape \(1355,\)"),
        (lambda n, d: hessian(n, "cross_entropy", d).matvec({"a": jnp.ones(3)}), "structure of params"),
        (lambda n, d: hessian(n, "cross_entropy", d).top(0), "k must be from 1 to 1355"),
        (lambda n, d: hessian(n, "cross_entropy", d).top(2, which="middle"), "which must be one of"),
        (
            lambda n, d: hessian(n, "cross_entropy", d).trace(key=jax.random.key(0), method="exact"),
            "method must be one of",
        ),
        (lambda n, d: hessian_of(3, jnp.ones(2)), "objective must be a function of the parameters"),
        (lambda n, d: hessian_of(jnp.sum, jnp.arange(2)), "params must have at least one floating-point array"),
        (lambda n, d: gauss_newton(n, "cross_entropy", d[0]), r"data must be a pair \(x, y\)"),
        (lambda n, d: gauss_newton(n, BatchLoss(lambda n, b: 0.0), d), "loss of every example on its own"),
    ],
)
def test_bad_input_gets_a_sentence(small, call, sentence):
    params, data, _, _ = small
    with jax.enable_x64(True), pytest.raises((TypeError, ValueError), match=sentence):
        call(network(params), data)


def test_the_matrix_of_a_large_network_is_not_formed():
    with pytest.raises(ValueError, match="too large to form"):
        hessian_of(lambda w: jnp.sum(w**2), jnp.ones(30_000)).dense()
