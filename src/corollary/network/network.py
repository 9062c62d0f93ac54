r"""A network is a callable pytree of one example: `network(x)`. Any Equinox module is one; `Network` makes one.

corollary.Network(apply, params)                           # apply(params, x) for one example
corollary.Network(apply, params, batched=True)             # apply(params, x) for a batch
corollary.Network(lambda params, x: apply(params, None, x), params, batched=True)  # Haiku: apply(params, rng, x)
corollary.Network.from_flax(module, example, variables=variables)
corollary.Network.from_keras(model, example)
corollary.Network.from_torch(module, example)
corollary.Network.from_onnx("model.onnx", example)
corollary.Network.from_sklearn(estimator)

`example` is one input without an axis of examples. What has several inputs takes a tuple, one entry for each argument
of its call in turn, or a dictionary of them by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from corollary.network._code import by_code


def _arrays(name, tree):
    """`tree` with its numbers as arrays; functions and the like stay as they are."""

    def leaf(path, value):
        if isinstance(value, str | bytes) or value is None:
            where = name + jax.tree_util.keystr(path)
            raise TypeError(f"{where} must be an array of numbers, got {type(value).__name__}.")
        return jnp.asarray(value) if isinstance(value, np.ndarray | np.generic | float | complex) else value

    return jax.tree_util.tree_map_with_path(leaf, tree)


class Network(eqx.Module):
    """A function of parameters and an example, with its parameters: `network(x)` is `apply(params, x)`.

    With `buffers` (stored statistics, fixed tables) it is `apply(params, buffers, x)`: they are never trained. A
    `batched` function takes a batch and returns a batch; `network(x)` still takes one example. `notes` are sentences
    about what was taken for what when the network was read. `recomputed(params, buffers, x)` are the outputs of a batch
    with every batch normalisation by the statistics of that batch in place of stored ones, all else as `apply` has it.

    >>> Network(lambda w, x: jnp.tanh(w @ x), jnp.eye(3)).params.shape
    (3, 3)
    """

    params: Any
    buffers: Any
    apply: Callable = eqx.field(static=True)
    batched: bool = eqx.field(static=True)
    notes: tuple[str, ...] = eqx.field(static=True)
    recomputed: Callable | None = eqx.field(static=True)

    def __init__(
        self,
        apply: Callable,
        params: Any,
        buffers: Any = None,
        *,
        batched: bool = False,
        notes: tuple[str, ...] = (),
        recomputed: Callable | None = None,
    ):
        if not callable(apply):
            raise TypeError(f"apply must be a function of parameters and an example, got {type(apply).__name__}.")
        self.apply = by_code(apply)
        self.params, self.buffers = _arrays("params", params), _arrays("buffers", buffers)
        self.batched, self.notes = bool(batched), tuple(notes)
        if recomputed is not None and not callable(recomputed):
            raise TypeError(f"recomputed must be a function of params, buffers and a batch, got {recomputed!r}.")
        self.recomputed = None if recomputed is None else by_code(recomputed)

    def __call__(self, x: PyTree) -> PyTree:
        """The output for one example."""
        if not self.batched:
            return self.on_batch(x)
        return jax.tree.map(lambda a: a[0], self.on_batch(jax.tree.map(lambda a: a[None], x)))

    def on_batch(self, x: PyTree) -> PyTree:
        """`apply` as it is: on a batch, if the function is `batched`."""
        return self.apply(self.params, x) if self.buffers is None else self.apply(self.params, self.buffers, x)

    def with_params(self, params: PyTree) -> "Network":
        """The same network with other parameters of the same structure.

        >>> Network(lambda w, x: w * x, jnp.ones(2)).with_params(3 * jnp.ones(2))(jnp.ones(2)).tolist()
        [3.0, 3.0]
        """
        if jax.tree.structure(params) != jax.tree.structure(self.params):
            raise ValueError(
                f"params must have the structure of the network's own, {jax.tree.structure(self.params)}, "
                f"got {jax.tree.structure(params)}."
            )
        options = {"batched": self.batched, "notes": self.notes, "recomputed": self.recomputed}
        return Network(self.apply, params, self.buffers, **options)

    @classmethod
    def from_equinox(cls, module: Any, state: PyTree | None = None, *, output: str | int | None = None) -> "Network":
        """An Equinox module that takes more than one example: a state, several inputs, or a key that it must have.

        A module of one input alone is a network already. With several inputs `x` is a tuple or a dictionary: its
        entries are the arguments of the call, in turn or by name. With a state, as after training with
        `equinox.nn.BatchNorm`, the module returns its output and the next state. `output` names one of several outputs.

        >>> class Sum(eqx.Module):
        ...     weight: jax.Array
        ...
        ...     def __call__(self, a, b):
        ...         return self.weight * (a + b)
        >>> print(Network.from_equinox(Sum(jnp.ones(2)))((jnp.ones(2), jnp.zeros(2))))
        [1. 1.]
        """
        from corollary.network._equinox import from_equinox

        return from_equinox(module, state, output)

    @classmethod
    def from_flax(
        cls, module: Any, example: PyTree, *, variables: PyTree | None = None, output: str | int | None = None
    ) -> "Network":
        """A Flax module, NNX or Linen, in inference mode; a Linen module comes with its `variables`.

        With several inputs `example` and `x` are tuples or dictionaries: their entries are the arguments of the call,
        in turn or by name. `output` names one of several outputs, by its key or its number.

        >>> from flax import nnx
        >>> Network.from_flax(nnx.Linear(3, 2, rngs=nnx.Rngs(0)), x[0])(x[0]).shape
        (2,)
        """
        from corollary.network._flax import from_flax

        return from_flax(module, example, variables, output)

    @classmethod
    def from_keras(cls, model: Any, example: PyTree, *, output: str | int | None = None) -> "Network":
        """A Keras 3 model on its JAX backend, in inference mode: Sequential, functional or subclassed.

        Set the environment variable `KERAS_BACKEND=jax` before keras is imported. Parameters are the trainable
        variables, under their paths. With several inputs `example` and `x` are tuples, in the order of the model's
        inputs, or dictionaries by their names; `output` names one of several outputs, by its key or its number.

        >>> import os
        >>> os.environ["KERAS_BACKEND"] = "jax"
        >>> import keras
        >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="last")])
        >>> {name: leaf.shape for name, leaf in Network.from_keras(model, x[0]).params.items()}
        {'last/bias': (2,), 'last/kernel': (3, 2)}
        """
        from corollary.network._keras import from_keras

        return from_keras(model, example, output)

    @classmethod
    def from_onnx(
        cls,
        path: str | PathLike,
        example: PyTree,
        *,
        output: str | None = None,
        parameters: Sequence[str] | None = None,
    ) -> "Network":
        """The network in an ONNX file (a path, its bytes, or the model itself), checked against onnxruntime.

        A graph with several inputs takes a tuple in the order of its inputs, or a dictionary by their names; an input
        without an axis of examples stays what it is in `example`. `output` and `parameters` name tensors where there is
        a choice: any value of the graph may be the output.
        """
        from corollary.network._onnx import from_onnx

        return from_onnx(path, example, output, parameters)

    @classmethod
    def from_sklearn(cls, estimator: Any, example: PyTree | None = None) -> "Network":
        """A fitted network or linear model of scikit-learn, alone or behind scalers in a pipeline.

        Networks are `MLPClassifier` and `MLPRegressor`; linear models all that answer with their `coef_` and
        `intercept_`. What a pipeline does first (`StandardScaler`, `MinMaxScaler`, `MaxAbsScaler`, `RobustScaler`,
        `PCA`) is a part of the network, its numbers are buffers. A classifier's outputs are logits, those of a linear
        one what its `decision_function` returns: one for two classes.

        >>> from sklearn.linear_model import LinearRegression
        >>> fitted = LinearRegression().fit([[0.0], [1.0]], [1.0, 3.0])
        >>> print(Network.from_sklearn(fitted)(jnp.array([2.0])))
        [5.]
        """
        from corollary.network._sklearn import from_sklearn

        return from_sklearn(estimator, example)

    @classmethod
    def from_torch(cls, module: Any, example: PyTree, *, output: str | int | None = None) -> "Network":
        """A PyTorch module in its `eval` mode, called on batches; parameters are those that require gradients.

        `example` is one example, without an axis for the batch: an array, a tuple of arrays for several inputs, or a
        dictionary of arrays for keyword inputs; `network(x)` takes the same. Of several outputs `output` names one, or
        gives its number; without it that is "logits". Frozen parameters are buffers, tied ones are one parameter.

        >>> import torch
        >>> module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2)).eval()
        >>> network = Network.from_torch(module, x[0])
        >>> sorted(network.params), network(x[0]).shape
        (['0.bias', '0.weight', '2.bias', '2.weight'], (2,))
        """
        from corollary.network._torch import from_torch

        return from_torch(module, example, output)
