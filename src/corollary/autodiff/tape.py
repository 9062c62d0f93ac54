r"""Reverse mode as the deep learning libraries do it: operations on arrays are recorded while they run.

Every operation leaves a `Step` behind that knows the steps before it and how to turn a message at its result into
messages for its inputs (vector-Jacobian products). `backward` walks the steps in reverse, each once, after all who use
it. Nothing is declared beforehand: a Python `if` or a loop of any length records what it did. The data are JAX arrays,
so a program that records and walks back can itself be compiled with `jax.jit`.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Any

import jax.numpy as jnp
from jaxtyping import ArrayLike, Float

from corollary._validate import real
from corollary.autodiff import elementary
from corollary.catalog import implements

_RECORDING = contextvars.ContextVar("recording", default=True)


class Step:
    """One recorded operation. `next` are the steps that made its inputs; constants have none."""

    def __init__(self, name: str, next: tuple = (), pull: Callable | None = None, leaf: Tensor | None = None):
        self.name, self.next, self.pull, self.leaf = name, next, pull, leaf

    def __repr__(self):
        return f"<{self.name}>"


@implements("M24.07", "T04.08", "T04.09")
class Tensor:
    """An array that remembers how it was made. With `requires_grad` a leaf collects its gradient in `grad`."""

    __array_ufunc__ = None  # NumPy numbers leave the operation to us

    def __init__(self, data: Float[ArrayLike, "..."], requires_grad: bool = False):
        self.data = real("data", data, finite=False)
        self.grad, self.grad_fn = None, None
        self._sink = Step("AccumulateGrad", leaf=self) if requires_grad else None

    def __add__(self, other):
        other = _tensor(other, self)
        return _record("AddBackward0", self.data + other.data, (self, lambda s: s), (other, lambda s: s))

    def __mul__(self, other):
        other = _tensor(other, self)
        a, b = self.data, other.data
        return _record("MulBackward0", a * b, (self, lambda s: s * b), (other, lambda s: s * a))

    def __truediv__(self, other):
        other = _tensor(other, self)
        a, b = self.data, other.data
        return _record("DivBackward0", a / b, (self, lambda s: s / b), (other, lambda s: -s * a / b**2))

    def __pow__(self, power):
        if isinstance(power, Tensor):
            raise TypeError("The exponent must be a number, not a Tensor.")
        x = self.data
        slope = power * x ** (power - 1) if power != 0 else jnp.zeros_like(x)
        return _record("PowBackward0", x**power, (self, lambda s: s * slope))

    def __matmul__(self, other: "Tensor") -> Tensor:
        other = _tensor(other, self)
        a, b = self.data, other.data
        if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
            raise ValueError(f"A matrix product needs shapes (m, k) and (k, n), got {a.shape} and {b.shape}.")
        # the two messages of U = W Z: neither ever forms the Jacobian (T04.09)
        return _record("MmBackward0", a @ b, (self, lambda s: s @ b.T), (other, lambda s: a.T @ s))

    def __getitem__(self, index):
        zeros = jnp.zeros_like(self.data)
        return _record("IndexBackward0", self.data[index], (self, lambda s: zeros.at[index].add(s)))

    def sum(self) -> "Tensor":
        return _record("SumBackward0", self.data.sum(), (self, lambda s: jnp.broadcast_to(s, self.data.shape)))

    def exp(self) -> "Tensor":
        u = jnp.exp(self.data)
        return _record("ExpBackward0", u, (self, lambda s: s * u))

    def log(self) -> "Tensor":
        x = self.data  # not self.data in the lambda: it may be another array when the message comes
        return _record("LogBackward0", jnp.log(x), (self, lambda s: s / x))

    def tanh(self) -> "Tensor":
        u = jnp.tanh(self.data)
        return _record("TanhBackward0", u, (self, lambda s: s * (1 - u * u)))

    def sigmoid(self) -> "Tensor":
        u = elementary.sigmoid(self.data)
        return _record("SigmoidBackward0", u, (self, lambda s: s * u * (1 - u)))

    def relu(self) -> "Tensor":
        on = self.data > 0
        return _record("ReluBackward0", jnp.where(on, self.data, 0), (self, lambda s: jnp.where(on, s, 0)))

    def __neg__(self):
        return _record("NegBackward0", -self.data, (self, lambda s: -s))

    def __sub__(self, other):
        return self + -_tensor(other, self)

    def __rsub__(self, other):
        return -self + other

    def __rtruediv__(self, other):
        return _tensor(other, self) / self

    def __lt__(self, other):
        return bool(self.data < _tensor(other, self).data)

    def __gt__(self, other):
        return bool(self.data > _tensor(other, self).data)

    __radd__, __rmul__ = __add__, __mul__

    def detach(self) -> "Tensor":
        """The same numbers as a constant: nothing flows back through them."""
        return Tensor(self.data)

    def zero_grad(self) -> None:
        self.grad = None  # without this, gradients add up over calls of `backward`

    def backward(self) -> int:
        """Add the derivative of this scalar to the `grad` of every leaf below; returns the number of messages sent."""
        if self.data.ndim:
            raise ValueError(f"backward needs a scalar, got shape {self.data.shape}.")
        if (first := _step(self)) is None:
            raise ValueError("backward needs a recorded computation on a Tensor made with requires_grad=True.")
        inbox, sent = {first: jnp.ones_like(self.data)}, 0
        for step in reversed(_topological(first)):
            message = inbox.pop(step)
            if step.leaf is not None:
                step.leaf.grad = message if step.leaf.grad is None else step.leaf.grad + message
                continue
            for below, letter in zip(step.next, step.pull(message), strict=True):
                inbox[below] = inbox[below] + letter if below in inbox else letter
                sent += 1
        return sent


def recorded(tensor: Tensor) -> int:
    """How many operations are kept for the way back from this tensor."""
    first = _step(tensor)
    return 0 if first is None else sum(step.leaf is None for step in _topological(first))


@implements("M24.15")
@contextlib.contextmanager
def no_grad() -> Iterator[Any]:
    """Inside, operations are not recorded: no memory is spent, and there is no way back."""
    token = _RECORDING.set(False)
    try:
        yield
    finally:
        _RECORDING.reset(token)


def _record(name, value, *inputs) -> Tensor:
    """The result of an operation; `inputs` are pairs of a tensor and what takes the message S to it."""
    out = Tensor(value)
    live = [(_step(tensor), pull, tensor.data.shape) for tensor, pull in inputs if _step(tensor) is not None]
    if _RECORDING.get() and live:
        send = lambda s: [_unbroadcast(pull(s), shape) for _, pull, shape in live]  # noqa: E731
        out.grad_fn = Step(name, tuple(step for step, _, _ in live), send)
    return out


def _step(tensor: Tensor) -> Step | None:
    return tensor.grad_fn or tensor._sink


def _topological(last: Step) -> list[Step]:
    """All steps below `last`, each after all of its own inputs. A stack, since programs are deeper than Python's."""
    done, order, stack = set(), [], [(last, False)]
    while stack:
        step, ready = stack.pop()
        if ready:
            order.append(step)
        elif step not in done:
            done.add(step)
            stack.append((step, True))
            stack.extend((below, False) for below in step.next)
    return order


def _unbroadcast(message, shape):
    """A number that was used in many places receives the sum of their messages."""
    axes = tuple(range(message.ndim - len(shape)))
    message = message.sum(axes) if axes else message
    kept = tuple(i for i, n in enumerate(shape) if n == 1 and message.shape[i] != 1)
    return message.sum(kept, keepdims=True) if kept else message


def _tensor(x, like: Tensor) -> Tensor:
    if isinstance(x, Tensor):
        return x
    return Tensor(jnp.asarray(x, like.data.dtype) if isinstance(x, int | float) else x)  # a number has no precision
