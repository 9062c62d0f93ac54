"""The ten tasks of docs/tasks.md: each at most three lines, run as they are printed, and held to a reference."""

import ast
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import corollary
from corollary.nets.recurrent import LSTM, Recurrent

TEXT = (Path(__file__).resolve().parent.parent / "docs" / "tasks.md").read_text(encoding="utf-8")
TASKS = {
    part.splitlines()[0]: re.search(r"```python\n(.*?)```", part, re.DOTALL).group(1)
    for part in TEXT.split("\n## ")[1:]
}
# the body of a claim is the user's own: what it takes to verify one is the command below it
LONGER = {"A claim of your own, verified"}


def test_there_are_ten_of_at_most_three_lines():
    assert len(TASKS) == 10
    assert all(len(code.splitlines()) <= 3 for name, code in TASKS.items() if name not in LONGER)


@pytest.fixture
def names():
    """What a user has: data, and everything imported."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(24, 4)).astype(np.float32)
    y = np.arange(24) % 3
    return {
        "corollary": corollary,
        "equinox": equinox,
        "jax": jax,
        "optax": optax,
        "LSTM": LSTM,
        "Recurrent": Recurrent,
        "x": x,
        "y": y,
        "targets": x[:, 0] ** 2,
        "sequences": rng.normal(size=(12, 6, 1)).astype(np.float32),
        "network": equinox.nn.MLP(4, 3, 16, 2, key=jax.random.key(1)),
    }


def do(task: str, names: dict):
    """Run a task; the value of its last line, where that is an expression."""
    tree = ast.parse(TASKS[task])
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, task, "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), task, "eval"), names)


def outputs_and_jacobian(network, x):
    params, static = equinox.partition(network, equinox.is_inexact_array)
    flat, back = jax.flatten_util.ravel_pytree(params)
    return jax.jit(jax.jacrev(lambda p: jax.vmap(equinox.combine(back(p), static))(x)))(flat)


def test_flax(names):
    linen = pytest.importorskip("flax.linen")
    module = linen.Sequential([linen.Dense(5), linen.tanh, linen.Dense(3)])
    variables = module.init(jax.random.key(0), names["x"])
    found = do(
        "The largest eigenvalue of the Hessian of a Flax network", names | {"module": module, "variables": variables}
    )
    flat, back = jax.flatten_util.ravel_pytree(variables)

    def loss(p):
        return -jax.nn.log_softmax(module.apply(back(p), names["x"]))[jnp.arange(24), names["y"]].mean()

    np.testing.assert_allclose(found[0], np.linalg.eigvalsh(jax.jit(jax.hessian(loss))(flat))[-1], rtol=1e-4)


def test_torch(names):
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'corollary[torch]'")
    module = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2))
    kernel = do("The tangent kernel of a PyTorch module", names | {"torch_module": module})
    rows = []
    for example in torch.as_tensor(names["x"]):
        slopes = [torch.autograd.grad(out, list(module.parameters()), retain_graph=True) for out in module(example)]
        rows.append(torch.stack([torch.cat([g.ravel() for g in s]) for s in slopes]).numpy())
    direct = np.einsum("ikp,jkp->ij", np.stack(rows), np.stack(rows))
    np.testing.assert_allclose(kernel, direct, rtol=1e-4, atol=1e-4)


def test_equinox(names):
    kernel = do("The tangent kernel of an Equinox module", names)
    jacobian = outputs_and_jacobian(names["network"], names["x"])
    np.testing.assert_allclose(kernel, jnp.einsum("ikp,jkp->ij", jacobian, jacobian), rtol=1e-4)


def test_onnx(names, tmp_path, monkeypatch):
    onnx = pytest.importorskip("onnx")
    w = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["x", "w"], ["out"])],
        "net",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 4])],
        [onnx.helper.make_tensor_value_info("out", onnx.TensorProto.FLOAT, ["n", 3])],
        [onnx.numpy_helper.from_array(w, "w")],
    )
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8),
        tmp_path / "model.onnx",
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("corollary.audit.run.SECTIONS", ("trainability", "minimum"))
    do("The audit of an ONNX file", names)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    titles = "Will it train?", "Did it find a minimum?"
    assert all(title in page for title in titles)


def test_lstm(names):
    names["labels"] = (np.cumsum(names["sequences"][..., 0], 1) > 0).astype(int)
    do("An LSTM, trained", names)
    assert names["trained"].losses[-1] < 0.5 * names["trained"].losses[0]


def test_svrg(names):
    do("SVRG on a network of your own", names)
    losses = names["trained"].losses
    assert np.mean(losses[-10:]) < np.mean(losses[:10])


def test_noise(names):
    scale, interval = do("The noise scale of the gradient", names)
    x, y, network = names["x"], names["y"], names["network"]
    each = [
        jax.flatten_util.ravel_pytree(equinox.filter_grad(lambda n, a=a, b=b: -jax.nn.log_softmax(n(a))[b])(network))[0]
        for a, b in zip(x, y, strict=True)
    ]
    rows = np.stack(each).astype(float)
    exact = np.trace(np.cov(rows.T, bias=True)) / np.sum(rows.mean(0) ** 2)
    np.testing.assert_allclose(scale, exact, rtol=1e-3)
    assert interval[0] < scale


def test_kernel_regression(names):
    found = do("Kernel regression with the kernel of an infinitely wide network", names)
    k = np.asarray(corollary.kernels.ntk(names["x"], depth=2), float)
    exact = k[:5] @ np.linalg.solve(k + 1e-3 * np.eye(24), names["targets"])
    np.testing.assert_allclose(found, exact, rtol=1e-3, atol=1e-4)


def test_rate(names):
    promised = do("A rate with a network's own constants", names)
    network, x, y = names["network"], names["x"], names["y"]
    slope = corollary.landscape.hessian(network, "cross_entropy", (x, y)).gradient()
    # 1000 steps of 1/L: the smallest gradient on the way is below the promise, the first one is far above
    trained = corollary.nets.train(
        network,
        "cross_entropy",
        (x, y),
        optax.sgd(1 / float(names["L"])),
        steps=1000,
        measure=lambda n: optax.tree.norm(corollary.landscape.hessian(n, "cross_entropy", (x, y)).gradient()),
        every=500,
    )
    assert np.min(trained.record) ** 2 <= promised < optax.tree.norm(slope) ** 2


def test_a_claim(tmp_path):
    code = "import jax\nfrom corollary.evidence import Size, claim, equal\n\n" + TASKS["A claim of your own, verified"]
    (tmp_path / "mine.py").write_text(code, encoding="utf-8")
    arguments = re.search(r"`corollary (verify [^`]*)`", TEXT).group(1)
    done = subprocess.run(
        [sys.executable, "-m", "corollary", *shlex.split(arguments), "--store", "evidence.db", "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["verdict"] for line in done.stdout.splitlines()] == ["holds"] * 10
