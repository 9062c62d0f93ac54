"""The listings of the chapter on automatic differentiation, run on our own tape."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.autodiff import Tensor, no_grad, recorded
from corollary.autodiff.elementary import sigmoid
from corollary.claims.autodiff._pictures import curves
from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, printed


def _cubes(x):
    return (x**3 + x**2).sum()


def _refusal(action) -> float:
    """One if the action is refused with a sentence, else zero."""
    try:
        action()
    except ValueError:
        return 1.0
    return 0.0


@claim(rows=("M24.08", "M24.14", "M24.15"))
def ones(key):
    r"""At x = (1, 1) the gradient of the sum of x³ + x² is (5, 5), and (3, 3) with x² detached.

    Only a scalar has a gradient: going back from a vector is refused. Inside `no_grad` nothing is recorded, and going
    back is refused too.
    """
    x, y = Tensor(jnp.ones(2), requires_grad=True), Tensor(jnp.ones(2), requires_grad=True)
    _cubes(x).backward()
    yield equal("gradient", x.grad, [5.0, 5.0], rtol=0, atol=0)
    (y**3 + (y**2).detach()).sum().backward()
    yield equal("gradient with x² detached", y.grad, [3.0, 3.0], rtol=0, atol=0)
    yield control("x² is detached", equal("gradient", y.grad, [5.0, 5.0]))
    yield equal("going back from a vector is refused", _refusal(lambda: (x**3).backward()), 1.0, rtol=0, atol=0)
    outside = _cubes(x)
    with no_grad():
        inside = _cubes(x)
    yield equal("operations kept: outside, inside", [recorded(outside), recorded(inside)], [4, 0], rtol=0, atol=0)
    yield equal("the values agree", inside.data, outside.data, rtol=0, atol=0)
    yield equal("going back from inside is refused", _refusal(inside.backward), 1.0, rtol=0, atol=0)


@claim(rows=("M24.09", "M24.07"))
def recorded_graph(key):
    r"""The steps recorded for 5 σ(2 Σ(x³ + x²)), in the order of the chain rule.

    Following the first input back from the result: multiply, sigmoid, multiply, sum, add, power, and the leaf that
    collects the gradient. At $x=(1,1)$ the derivative is $50\,\sigma'(8)=0.0167619$ in each direction.
    """
    x = Tensor(jnp.ones(2), requires_grad=True)
    f = 5 * (2 * _cubes(x)).sigmoid()
    step, names = f.grad_fn, [f.grad_fn.name]
    while step.next:
        step = step.next[0]
        names.append(step.name)
    chain = ("Mul", "Sigmoid", "Mul", "Sum", "Add", "Pow")
    listed = [f"{name}Backward0" for name in chain] + ["AccumulateGrad"]
    same = [float(a == b) for a, b in zip(names, listed, strict=True)]
    yield equal("names of the steps, as printed", same, np.ones(7), rtol=0, atol=0)
    messages = f.backward()
    yield equal("messages: six on this path, two more on the other branch", messages, 8, rtol=0, atol=0)
    yield equal("gradient", x.grad, [0.0167619, 0.0167619], rtol=0, atol=5e-8)
    slope = sigmoid(jnp.array(8.0)) * sigmoid(jnp.array(-8.0))
    # σ(8) is near 1, and 1 - σ loses the digits that σ(8) has in front
    yield equal("gradient in closed form", x.grad, 50 * slope, rtol=1e-12)
    y = Tensor(jnp.ones(2), requires_grad=True)
    (5 * (2 * (y**3 + (y**2).detach()).sum()).sigmoid()).backward()
    yield control("x² is detached", equal("gradient in closed form", y.grad, 50 * slope, rtol=1e-12))


def _single_layer(key, inputs, units):
    draws = jax.random.normal(key, (units * inputs + 2 * units + inputs,))
    w, rest = draws[: units * inputs].reshape(units, inputs), draws[units * inputs :]
    return w, rest[:units, None], rest[None, units : 2 * units], rest[2 * units :, None]


@claim(rows=("M24.10",))
def single_layer(key, *, instances: Size = 16, inputs: Size = 2, units: Size = 5):
    r"""The gradients of a single-layer network, f = C σ(W x + B), in closed form.

    $\nabla_C=\sigma(z)^\top$, $\nabla_B=C^\top\odot\sigma'(z)$ and $\nabla_W=\nabla_B\,x^\top$ with $z=Wx+B$; 2
    inputs and 5 units as in the listing.
    """

    @jax.jit
    @jax.vmap
    def measure(key):
        w, b, c, x = _single_layer(key, inputs, units)
        tensors = [Tensor(each, requires_grad=True) for each in (w, b, c)]
        (tensors[2] @ (tensors[0] @ x + tensors[1]).sigmoid()).sum().backward()
        z = w @ x + b
        by_b = c.T * sigmoid(z) * sigmoid(-z)
        closed = [by_b @ x.T, by_b, sigmoid(z).T]
        deeper = [Tensor(each, requires_grad=True) for each in (w, b, c)]
        (deeper[2] @ (deeper[0] @ x + deeper[1]).sigmoid().sigmoid()).sum().backward()
        grads = [[t.grad for t in tensors], closed, [t.grad for t in deeper]]
        return [jnp.concatenate([e.ravel() for e in each]) for each in grads]

    ours, closed, deeper = measure(jax.random.split(key, instances))
    yield equal("gradients by W, B and C", ours, closed, atol=1e-14)
    yield control("σ is applied twice", equal("gradients by W, B and C", deeper, closed, atol=1e-14))


@claim(rows=("M24.11",), full={"steps": 20_000, "batch": 1024}, large={"steps": 100_000, "batch": 10_000})
def parabola(key, *, steps: Count = 4000, batch: Size = 128, units: Size = 100):
    r"""A network with 100 sigmoid units learns the parabola from fresh normal samples with RMSprop.

    The network of the listing (one input, no output bias, rate 0.001), differentiated by our tape inside one compiled
    loop; smaller batches and fewer steps than the 100 000 of 10 000 printed. The zero function has the mean squared
    error $E\,x^4=3$. The loss falls below a tenth of it, the fit on $[-2,2]$ is within 0.2 on average, and in the
    tails, where samples are rare, it is worse.
    """
    init_key, run_key = jax.random.split(key)
    draws = jax.random.uniform(init_key, (3, units), minval=-1.0)
    start = {"w": draws[:1], "b": draws[1:2], "c": draws[2][:, None] / jnp.sqrt(units)}  # within 1/sqrt(inputs)
    optimiser = optax.rmsprop(1e-3, decay=0.99, eps=1e-8)

    def network(p, x):
        return (x @ p["w"] + p["b"]).sigmoid() @ p["c"]

    @jax.jit
    def train(start, key):
        def advance(carry, key):
            params, state = carry
            x = jax.random.normal(key, (batch, 1))
            tensors = {name: Tensor(p, requires_grad=True) for name, p in params.items()}
            loss = ((network(tensors, Tensor(x)) - x**2) ** 2).sum() / batch
            loss.backward()
            updates, state = optimiser.update({name: t.grad for name, t in tensors.items()}, state)
            return (optax.apply_updates(params, updates), state), loss.data

        (params, _), losses = jax.lax.scan(advance, (start, optimiser.init(start)), jax.random.split(key, steps))
        grid = jnp.linspace(-4.0, 4.0, 161)[:, None]
        fixed = {name: Tensor(p) for name, p in params.items()}
        return losses, grid[:, 0], network(fixed, Tensor(grid)).data[:, 0]

    losses, grid, fit = train(start, run_key)
    error = jnp.abs(fit - grid**2)
    middle, tails = jnp.abs(grid) <= 2, jnp.abs(grid) >= 3
    last = losses[-max(steps // 20, 1) :].mean()
    yield at_most("mean squared error at the end", last, 0.3)
    yield at_most("average error on [-2, 2]", error[middle].mean(), 0.2)
    yield at_least(
        "average error in the tails, over that in the middle", error[tails].mean() / error[middle].mean(), 3.0
    )
    yield control("before any training", at_most("mean squared error", losses[0], 0.3))
    yield curves("the fit", grid, {"network": fit, "x²": grid**2}, titles=("x", "f(x)"))
    blocks = losses[: steps // 40 * 40].reshape(40, -1).mean(1)
    yield curves("loss", jnp.arange(1, 41) * (steps // 40), {"loss": blocks}, titles=("step", "loss"), log="y")


@claim(rows=("M24.12",))
def accumulation(key, *, calls: Size = 7, steps: Count = 60):
    r"""Gradients add up over calls of backward; descent with the sum of all gradients oscillates without end.

    After $n$ calls without zeroing, `grad` is $n$ times the gradient. On $\frac\lambda2\theta^2$ the update with the
    sum, $\theta_{k+1}=\theta_k-\eta\lambda\sum_{j\le k}\theta_j$, has the characteristic roots of
    $z^2-(2-\eta\lambda)z+1$, which for $\eta\lambda<4$ lie on the unit circle:
    $\theta_k^2-(2-\eta\lambda)\theta_k\theta_{k+1}+\theta_{k+1}^2$ is constant.
    """
    start = jax.random.uniform(key, (), minval=1.0, maxval=2.0)
    curvature, eta = 2.0, 0.1
    x = Tensor(start, requires_grad=True)
    grads = []
    for _ in range(calls):
        _cubes(x).backward()
        grads.append(x.grad)
    multiples = np.arange(1, calls + 1) * (3 * start**2 + 2 * start)
    yield equal("gradient after n calls", jnp.stack(grads), multiples, rtol=1e-13, along="call")

    def run(zeroing):
        theta, path = Tensor(start, requires_grad=True), [start]
        for _ in range(steps):
            if zeroing:
                theta.zero_grad()
            (theta * theta * (curvature / 2)).backward()
            theta.data = theta.data - eta * theta.grad
            path.append(theta.data)
        return jnp.stack(path)

    summed, proper = jax.jit(lambda: (run(False), run(True)))()

    def energy(path):
        return path[:-1] ** 2 - (2 - eta * curvature) * path[:-1] * path[1:] + path[1:] ** 2

    yield equal("energy without zeroing", energy(summed), energy(summed)[0], rtol=1e-12, along="step")
    k = jnp.arange(steps + 1)
    yield equal("with zeroing", proper, start * (1 - eta * curvature) ** k, rtol=1e-12, along="step")
    yield control(
        "the gradient is set to zero before each call", equal("energy", energy(proper), energy(proper)[0], rtol=1e-12)
    )
    lines = {"summed gradients": curvature / 2 * summed**2, "zeroed": curvature / 2 * proper**2}
    yield curves("loss", k, lines, titles=("step", "loss"), log="y")


@claim(
    rows=("M24.12",),
    erratum="Gradients are said to be added up whenever the optimiser steps; it is backward that adds them.",
)
def printed_accumulation(key, *, steps: Size = 5):
    r"""Every step of the optimiser adds the calculated gradient to the gradient field.

    As printed: "every time optimizer.step() is called, the calculated gradients are added to the current tensors".
    After one call of `backward` and $n$ steps the field would hold $n$ gradients or more; it holds one. After $n$ calls
    of `backward` at one point it holds $n$.
    """
    start = jax.random.uniform(key, (), minval=1.0, maxval=2.0)
    theta, other = Tensor(start, requires_grad=True), Tensor(start, requires_grad=True)
    (theta * theta).backward()
    held, called = [], []
    for _ in range(steps):
        theta.data = theta.data - 0.01 * theta.grad
        held.append(theta.grad / (2 * start))
        (other * other).backward()
        called.append(other.grad / (2 * start))
    count = np.arange(1, steps + 1)
    yield equal("gradients held after one call of backward and n steps: one", held, 1.0, along="step")
    yield equal("gradients held after n calls of backward: n", called, count, along="call")
    yield printed(equal("gradients held after n steps: n", held, count, along="step"))


@claim(rows=("M24.13", "M24.07"))
def conditionals(key, *, points: Size = 20):
    r"""A program with a branch is differentiated along the branch it takes.

    $f=\sum(x^3+x^2)$ if $x_0<0$ and $f=\sum x$ else: the gradient is $3x^2+2x$ or 1. Differences of $f$ agree, except
    at the jump, where $f$ has no derivative and the tape returns that of one side.
    """

    def f(x):
        return _cubes(x) if x[0] < 0 else x.sum()

    draws = np.array(jax.random.normal(key, (points, 2)))
    # away from the jump, on both sides
    draws[:, 0] = np.where(np.arange(points) % 2 == 0, -1, 1) * (0.1 + np.abs(draws[:, 0]))
    gradients, differences = [], []
    h = 1e-6
    for x in draws:
        tensor = Tensor(jnp.asarray(x), requires_grad=True)
        f(tensor).backward()
        gradients.append(tensor.grad)
        values = [[f(x + s * h * e) for s in (1, -1)] for e in np.eye(2)]
        differences.append([(up - down) / (2 * h) for up, down in values])
    predicted = np.where(draws[:, :1] < 0, 3 * draws**2 + 2 * draws, 1.0)
    yield equal("gradient of the branch taken", jnp.stack(gradients), predicted, rtol=1e-14)
    # truncation h² f'''/6 = 1e-12; rounding eps |f| / h, with |f| below 100
    yield equal("central differences", differences, predicted, rtol=0, atol=3e-8)
    edge = Tensor(jnp.array([0.0, 1.0]), requires_grad=True)
    f(edge).backward()
    jump = (f(np.array([h, 1.0])) - f(np.array([-h, 1.0]))) / (2 * h)
    yield equal("on the jump: the derivative of one side", edge.grad[0], 1.0, rtol=0, atol=0)
    yield control("at the jump f has no derivative", equal("central difference", jump, edge.grad[0], rtol=0, atol=3e-8))


@claim(rows=("M24.15",))
def precision(key, *, units: Size = 50, inputs: Size = 20):
    r"""Half the bits: half the memory, and the gradient is right to the rounding unit of the type.

    An entry of type float64, float32, float16 takes 8, 4, 2 bytes. The gradient of a single-layer network on the tape
    in each type has an error of the order of its rounding unit, $2.2\cdot10^{-16}$, $1.2\cdot10^{-7}$,
    $9.8\cdot10^{-4}$, over the largest entry.
    """
    w, b, c, x = _single_layer(key, inputs, units)
    w, c = w / jnp.sqrt(inputs), c / jnp.sqrt(units)
    z = np.asarray(w, np.longdouble) @ np.asarray(x, np.longdouble) + np.asarray(b, np.longdouble)
    sigma = 1 / (1 + np.exp(-z))
    exact = np.asarray(c, np.longdouble).T * sigma * (1 - sigma) @ np.asarray(x, np.longdouble).T
    types = (jnp.float64, jnp.float32, jnp.float16)
    errors, sizes = [], []
    for dtype in types:
        left, right = Tensor(w.astype(dtype), requires_grad=True), Tensor(c.astype(dtype), requires_grad=True)
        hidden = (left @ x.astype(dtype) + b.astype(dtype)).sigmoid()
        (right @ hidden).sum().backward()
        gradient = np.asarray(left.grad)
        sizes.append(gradient.itemsize)
        errors.append(float(np.abs(gradient.astype(np.longdouble) - exact).max() / np.abs(exact).max()))
    units_of = np.array([float(jnp.finfo(dtype).eps) for dtype in types])
    yield equal("bytes an entry", sizes, [8, 4, 2], rtol=0, atol=0)
    # the inputs are rounded, a sum of `inputs` terms and four products follow: at most inputs + 5 roundings of half a
    # unit each, of terms that add up to at most sqrt(inputs) times their sum
    yield at_most("error over the rounding unit", errors / units_of, inputs + 5.0)
    yield control("the tape runs in float16, not in float32", at_most("error", errors[2], (inputs + 5.0) * units_of[1]))
