"""Stale batch statistics are found through every door that stores them, and fresh ones are not accused."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary import Network, Subject
from corollary.audit._budget import Budget
from corollary.audit.sections import _statistics
from corollary.nets.normalisation import NormalisedMLP

RNG = np.random.default_rng(0)
N, D = 64, 4
X = (3 + 2 * RNG.normal(size=(N, D))).astype(np.float32)
Y = np.arange(N) % 3
LESS = Budget("less", examples=256, kernel=8, products=8, work=1e12)


def found(network):
    return _statistics.finding(Subject(network, "cross_entropy", (X, Y)), LESS, jax.random.key(0))


def of_equinox(mode, stale):
    class Net(eqx.Module):
        first: eqx.nn.Linear
        norm: eqx.nn.BatchNorm
        drop: eqx.nn.Dropout
        last: eqx.nn.Linear

        def __call__(self, x, state):
            x, state = self.norm(self.first(x), state)
            return self.last(self.drop(jax.nn.relu(x))), state

    keys = jax.random.split(jax.random.key(0))
    norm = eqx.nn.BatchNorm(6, "batch", mode=mode, momentum=0.0)
    drop = eqx.nn.Dropout(0.5, inference=True)
    module = Net(eqx.nn.Linear(D, 6, key=keys[0]), norm, drop, eqx.nn.Linear(6, 3, key=keys[1]))
    seen = X / 3 if stale else X
    _, state = jax.vmap(module, in_axes=(0, None), axis_name="batch", out_axes=(0, None))(seen, eqx.nn.State(module))
    # dropout stays off, although the module was in training mode
    return Network.from_equinox(eqx.tree_at(lambda m: m.drop.inference, module, False), state)


def of_linen(stale):
    linen = pytest.importorskip("flax.linen")

    class Net(linen.Module):
        @linen.compact
        def __call__(self, x, train: bool):
            x = linen.BatchNorm(use_running_average=not train, momentum=0.0)(linen.Dense(6)(x))
            return linen.Dense(3)(linen.Dropout(0.5, deterministic=not train)(linen.relu(x)))

    module, key = Net(), jax.random.key(0)
    seen = X / 3 if stale else X
    variables = module.init(key, X, train=False)
    moved = module.apply(variables, seen, train=True, mutable=["batch_stats"], rngs={"dropout": key})[1]
    return Network.from_flax(module, X[0], variables={**variables, **moved})


def of_nnx(stale):
    nnx = pytest.importorskip("flax.nnx")

    class Net(nnx.Module):
        def __init__(self, rngs):
            self.first, self.last = nnx.Linear(D, 6, rngs=rngs), nnx.Linear(6, 3, rngs=rngs)
            self.norm = nnx.BatchNorm(6, momentum=0.0, rngs=rngs)

        def __call__(self, x):
            return self.last(nnx.relu(self.norm(self.first(x))))

    module = Net(nnx.Rngs(0))
    module(X / 3 if stale else X)
    return Network.from_flax(module, X[0])


def of_onnx(stale):
    onnx = pytest.importorskip("onnx")
    draw = np.random.default_rng(1)
    w, v = draw.normal(size=(D, 6)).astype(np.float32), draw.normal(size=(6, 3)).astype(np.float32)
    seen = (X / 3 if stale else X) @ w
    tensors = {"w": w, "v": v, "one": np.ones(6), "zero": np.zeros(6), "m": seen.mean(0), "s": seen.var(0)}
    graph = onnx.parser.parse_graph(
        "g (float[n, 4] x) => (float[n, 3] y) { a = MatMul(x, w) b = BatchNormalization(a, one, zero, m, s) "
        "c = Relu(b) y = MatMul(c, v) }"
    )
    graph.initializer.extend(onnx.numpy_helper.from_array(t.astype(np.float32), name) for name, t in tensors.items())
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    return Network.from_onnx(model, X[0])


def of_ours(stale):
    model = NormalisedMLP((D, 6, 3), key=jax.random.key(0))
    params, static = eqx.partition(model, eqx.is_inexact_array)

    def apply(params, statistics, x):
        return eqx.combine(params, static)(x, statistics)

    def recomputed(params, _, x):
        return eqx.combine(params, static).batch(x)[0]

    return Network(apply, params, model.batch(X / 3 if stale else X)[1], recomputed=recomputed)


DOORS = {
    "equinox": lambda stale: of_equinox("ema", stale),
    "equinox by batches": lambda stale: of_equinox("batch", stale),
    "linen": of_linen,
    "nnx": of_nnx,
    "onnx": of_onnx,
    "ours": of_ours,
}


@pytest.mark.parametrize("door", DOORS)
def test_stale_and_fresh(door):
    stale, fresh = (found(DOORS[door](s)) for s in (True, False))
    assert stale.mark == "problem"
    assert stale.interval[0] > 0.5
    assert "are stale" in stale.sentence
    assert fresh.mark == "fine"
    assert fresh.value < 0.1


def test_networks_without_them_and_those_that_do_not_tell():
    assert found(eqx.nn.MLP(D, 3, 4, 1, key=jax.random.key(0))) is None
    apply = lambda w, b, x: (x - b["norm.running_mean"]) @ w  # noqa: E731
    silent = Network(apply, jnp.ones((D, 3)), {"norm.running_mean": jnp.zeros(D)})
    assert found(silent).mark == "not applicable"
    with pytest.raises(TypeError, match="recomputed must be a function of params, buffers and a batch, got 3"):
        Network(apply, jnp.ones((D, 3)), recomputed=3)
    assert silent.with_params(jnp.zeros((D, 3))).recomputed is None


def test_few_examples():
    network = of_ours(False)
    one = Subject(network, "cross_entropy", (X[:3], Y[:3]))
    assert "at least four examples" in _statistics.finding(one, LESS, jax.random.key(0)).sentence
