"""The tape against jax.grad: every operation, shared nodes, broadcasting, branches and loops."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.autodiff import Tensor, elementary, no_grad, recorded


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


A = np.random.default_rng(0).uniform(0.5, 1.5, (3, 4))
B = np.random.default_rng(1).uniform(0.5, 1.5, (3, 4))

PROGRAMS = {
    "add": lambda a, b: a + b + 2.0,
    "subtract": lambda a, b: (a - b) * (3.0 - b),
    "multiply": lambda a, b: a * b * a,
    "divide": lambda a, b: a / b + 2.0 / a,
    "power": lambda a, b: a**3 - b**-2 + a**0,
    "negative": lambda a, b: -a * b,
    "exp and log": lambda a, b: elementary.exp(a * 0.5) * elementary.log(b),
    "tanh": lambda a, b: elementary.tanh(a * b),
    "sigmoid": lambda a, b: elementary.sigmoid(a - b),
    "index": lambda a, b: a[1] * b[0, 1:2] + a[[0, 0, 2], 1][0],
    "row broadcast": lambda a, b: a * b[0],
    "column broadcast": lambda a, b: a[:, :1] * b,
    "scalar broadcast": lambda a, b: (a * b).sum() * a,
    "diamond": lambda a, b: (c := a * b) * c + c,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_operation(name):
    program = PROGRAMS[name]
    left, right = Tensor(A, requires_grad=True), Tensor(B, requires_grad=True)
    program(left, right).sum().backward()
    expected = jax.grad(lambda a, b: jnp.sum(program(a, b)), (0, 1))(jnp.asarray(A), jnp.asarray(B))
    np.testing.assert_allclose(left.grad, expected[0], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(jnp.zeros_like(B) if right.grad is None else right.grad, expected[1], rtol=1e-12)


def test_matmul_and_relu():
    x, w = Tensor(A, requires_grad=True), Tensor(B.T - 1, requires_grad=True)
    ((x @ w).relu() * 2.0).sum().backward()
    expected = jax.grad(lambda x, w: 2 * jnp.sum(jax.nn.relu(x @ w)), (0, 1))(jnp.asarray(A), jnp.asarray(B.T - 1))
    np.testing.assert_allclose(x.grad, expected[0], rtol=1e-13)
    np.testing.assert_allclose(w.grad, expected[1], rtol=1e-13)


def softmax_cross_entropy(w, b):
    scores = w @ np.linspace(-1, 1, 4)[:, None] + b
    return elementary.log(elementary.exp(scores).sum()) - scores[1, 0]


def lstm_cell(w, b):
    gates = w @ np.linspace(-1, 1, 4)[:, None] + b
    i, f, g, o = gates[0:2], gates[2:4], gates[4:6], gates[6:8]
    c = elementary.sigmoid(f) * 0.3 + elementary.sigmoid(i) * elementary.tanh(g)
    return (elementary.sigmoid(o) * elementary.tanh(c)).sum()


def convolution(w, b):
    x, places = np.sin(np.arange(6.0)), np.arange(4)
    return (elementary.tanh(sum(w[0, r] * x[places + r] for r in range(3)) + b[0, 0]) ** 2).sum()


@pytest.mark.parametrize(("network", "rows"), [(softmax_cross_entropy, 3), (lstm_cell, 8), (convolution, 2)])
def test_networks(network, rows):
    w, b = np.random.default_rng(2).normal(size=(rows, 4)), np.random.default_rng(3).normal(size=(rows, 1))
    left, right = Tensor(w, requires_grad=True), Tensor(b, requires_grad=True)
    network(left, right).backward()
    expected = jax.jit(jax.grad(lambda w, b: network(w, b), (0, 1)))(jnp.asarray(w), jnp.asarray(b))
    np.testing.assert_allclose(left.grad, expected[0], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(right.grad, expected[1], rtol=1e-12, atol=1e-14)


def test_loops_and_branches_are_recorded_as_run():
    def program(x, n):
        for _ in range(n):
            x = elementary.tanh(x) * 1.5 if x > 0 else x - 0.1
        return x

    for n in (1, 3, 8):
        for start in (0.7, -0.4):
            x = Tensor(start, requires_grad=True)
            program(x, n).backward()
            np.testing.assert_allclose(x.grad, jax.grad(program)(start, n), rtol=1e-13)


def test_deep_programs_do_not_exhaust_the_stack():
    x = Tensor(1.0, requires_grad=True)
    y = x
    for _ in range(2000):
        y = y * 1.0
    assert y.backward() == 2000
    assert x.grad == 1.0


def test_accumulates_and_zeroes():
    x = Tensor(jnp.arange(3.0), requires_grad=True)
    for n in (1, 2, 3):
        (x * x).sum().backward()
        np.testing.assert_allclose(x.grad, n * 2 * np.arange(3.0))
    x.zero_grad()
    assert x.grad is None


def test_no_grad_restores_recording_after_an_error():
    x = Tensor(1.0, requires_grad=True)
    with pytest.raises(KeyError), no_grad():
        raise KeyError
    assert recorded(x * x) == 1
    with no_grad():
        assert recorded(x * x) == 0


def test_detach_and_constants_receive_nothing():
    x, y = Tensor(2.0, requires_grad=True), Tensor(3.0)
    (x * y + (x * x).detach()).backward()
    assert x.grad == 3.0
    assert y.grad is None


def test_compiles():
    def gradient(a, b):
        left = Tensor(a, requires_grad=True)
        (left @ b.T).sigmoid().sum().backward()
        return left.grad

    expected = jax.grad(lambda a, b: jax.nn.sigmoid(a @ b.T).sum())(jnp.asarray(A), jnp.asarray(B))
    np.testing.assert_allclose(jax.jit(gradient)(jnp.asarray(A), jnp.asarray(B)), expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.float32, jnp.float64])
def test_follows_the_type(dtype):
    x = Tensor(jnp.ones(3, dtype), requires_grad=True)
    (2 * (x**2 + 1.5) / 3).sum().backward()
    assert x.grad.dtype == dtype


@pytest.mark.parametrize(
    ("action", "error", "sentence"),
    [
        (lambda: Tensor(A, requires_grad=True).backward(), ValueError, "backward needs a scalar"),
        (lambda: Tensor(1.0).backward(), ValueError, "requires_grad=True"),
        (lambda: Tensor(A) @ Tensor(A), ValueError, r"needs shapes \(m, k\) and \(k, n\)"),
        (lambda: Tensor(1.0) ** Tensor(1.0), TypeError, "exponent must be a number"),
        (lambda: Tensor([None]), TypeError, "data must be an array"),
    ],
)
def test_sentences(action, error, sentence):
    with pytest.raises(error, match=sentence):
        action()
