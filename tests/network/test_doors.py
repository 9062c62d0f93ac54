"""The same numbers through every door: one trained network, made with each library, has the same audit.

Findings may not depend on how a library names its parameters, in which order it keeps them, or whether it keeps a
matrix or its transpose. In float64, so that rounding does not hide what is not rounding.
"""

from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.neural_network import MLPClassifier

from corollary import Network, Subject
from corollary.audit import audit

N, SIZES = 90, (8, 16, 3)
ETA, BATCH = 0.5, 30


@pytest.fixture(scope="module", autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def forward(params, x):
    (w, b), (v, c) = params
    return jnp.tanh(x @ w + b) @ v + c


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = np.arange(N) % SIZES[-1]
    x = rng.normal(size=(SIZES[-1], SIZES[0]))[y] + rng.normal(size=(N, SIZES[0]))
    return (x - x.mean(0)) / x.std(0), y


@pytest.fixture(scope="module")
def weights(data):
    """The layers where training starts, and where a hundred steps of gradient descent lead."""
    rng = np.random.default_rng(1)
    start = [(rng.normal(size=(m, n)) / np.sqrt(m), np.zeros(n)) for m, n in pairwise(SIZES)]
    x, y = data

    def loss(params):
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(forward(params, x)), y[:, None], 1))

    @jax.jit
    def trained(params):
        step = lambda p, _: (jax.tree.map(lambda a, g: a - ETA * g, p, jax.grad(loss)(p)), None)  # noqa: E731
        return jax.lax.scan(step, params, None, length=100)[0]

    return start, jax.tree.map(np.asarray, trained(start))


def function(layers, x):
    """A list of layers; the rooms' own tests are of such networks."""
    return Network(forward, layers)


def equinox(layers, x):
    module = eqx.nn.MLP(SIZES[0], SIZES[2], SIZES[1], 1, activation=jnp.tanh, key=jax.random.key(0))
    arrays = [jnp.asarray(a) for w, b in layers for a in (w.T, b)]
    return eqx.tree_at(lambda m: [a for layer in m.layers for a in (layer.weight, layer.bias)], module, arrays)


def linen(layers, x):
    linen = pytest.importorskip("flax.linen")
    module = linen.Sequential(
        [linen.Dense(SIZES[1], param_dtype=float), jnp.tanh, linen.Dense(SIZES[2], param_dtype=float)]
    )
    # the last layer comes first in the order of names
    params = {f"layers_{2 * i}": {"kernel": w, "bias": b} for i, (w, b) in enumerate(layers)}
    return Network.from_flax(module, x[0], variables={"params": params})


def nnx(layers, x):
    nnx = pytest.importorskip("flax.nnx")
    rngs = nnx.Rngs(0)
    module = nnx.Sequential(*[nnx.Linear(*w.shape, param_dtype=float, rngs=rngs) for w, _ in layers])
    module.layers.insert(1, jnp.tanh)
    for layer, (w, b) in zip((module.layers[0], module.layers[2]), layers, strict=True):
        layer.kernel[...], layer.bias[...] = w, b
    return Network.from_flax(module, x[0])


def keras(layers, x):
    keras = pytest.importorskip("keras", reason="keras is not installed: pip install 'corollary[keras]'")
    model = keras.Sequential(
        [
            keras.Input((SIZES[0],), dtype="float64"),
            keras.layers.Dense(SIZES[1], activation="tanh", dtype="float64", name="second"),
            keras.layers.Dense(SIZES[2], dtype="float64", name="first"),  # another order of names
        ]
    )
    model.set_weights([a for layer in layers for a in layer])
    return Network.from_keras(model, x[0])


def torch(layers, x):
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'corollary[torch]'")
    nn = torch.nn
    module = nn.Sequential(nn.Linear(SIZES[0], SIZES[1]), nn.Tanh(), nn.Linear(SIZES[1], SIZES[2])).double()
    with torch.no_grad():
        for layer, (w, b) in zip((module[0], module[2]), layers, strict=True):
            layer.weight.copy_(torch.tensor(w.T))
            layer.bias.copy_(torch.tensor(b))
    return Network.from_torch(module, x[0])


def onnx(layers, x):
    onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install 'corollary[onnx]'")
    stored = {
        name: a for names, layer in zip(("wb", "vc"), layers, strict=True) for name, a in zip(names, layer, strict=True)
    }
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node("Gemm", ["x", "w", "b"], ["a"]),
            onnx.helper.make_node("Tanh", ["a"], ["h"]),
            onnx.helper.make_node("Gemm", ["h", "v", "c"], ["out"]),
        ],
        "net",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.DOUBLE, ["n", SIZES[0]])],
        [onnx.helper.make_tensor_value_info("out", onnx.TensorProto.DOUBLE, ["n", SIZES[2]])],
        [onnx.numpy_helper.from_array(np.asarray(a), name) for name, a in stored.items()],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    return Network.from_onnx(model, x[0])


def estimator(layers):
    out = MLPClassifier((SIZES[1],), activation="tanh", alpha=0.0, max_iter=1, random_state=0)
    with pytest.warns(match="converge"):
        out.fit(np.zeros((SIZES[2], SIZES[0])), np.arange(SIZES[2]))
    out.coefs_, out.intercepts_ = map(list, zip(*layers, strict=True))
    return out


def sklearn(layers, x):
    return Network.from_sklearn(estimator(layers))


def numbers(report):
    """Every number of the findings, by section and name: the value, the ends of the interval, what is printed of it."""
    found = {}
    for section in report.sections:
        assert section.failed is None, section.failed
        for f in section.findings:
            values = () if f.value is None else (f.value, *(f.interval or ()))
            found[section.title, f.name] = f.mark, np.asarray(values, float)
    return found


def audited(door, weights, data):
    start, end = weights
    initial = door(start, data[0])
    subject = Subject(
        door(end, data[0]), "cross_entropy", data, data, initial=initial, learning_rate=ETA, batch_size=BATCH
    )
    return numbers(audit(subject))


@pytest.fixture(scope="module")
def expected(weights, data):
    return audited(function, weights, data)


@pytest.mark.parametrize("door", [equinox, linen, nnx, keras, torch, onnx, sklearn], ids=lambda door: door.__name__)
def test_one_audit_through_every_door(door, weights, data, expected):
    found = audited(door, weights, data)
    assert list(found) == list(expected)
    for name, (mark, values) in expected.items():
        assert found[name][0] == mark, name
        # numbers that are nothing but rounding are compared with one
        np.testing.assert_allclose(found[name][1], values, rtol=1e-5, atol=1e-12, err_msg=str(name))
