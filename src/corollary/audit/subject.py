r"""The network under audit, its loss, its data, and how it was trained as far as known.

    subject = Subject(network, "cross_entropy", (x, y), (x_test, y_test), learning_rate=0.1)
    subject.error("test"), subject.size, subject.classes
    jax.grad(subject.objective)(subject.params, subject.train)

Everything is looked at when the subject is made, so that no section of the audit has to doubt it: shapes, labels,
finite weights, data and outputs, a loss that is a mean, examples that do not influence each other.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int, Num, PyTree

from corollary._types import LossLike, NetworkLike
from corollary._validate import one_of, positive, real, whole
from corollary.audit import _checks, _losses
from corollary.audit._errors import SubjectError, sentences
from corollary.network.apart import first_line, require_apart
from corollary.network.loss import ExampleLoss, of_examples
from corollary.network.parts import matched, require_network, split

SPLITS = ("train", "test")


class Apply(eqx.Module):
    """The outputs for a batch as a function of parameters and inputs: all of a network but its parameters."""

    fixed: Any

    def __call__(self, params, x):
        return jax.vmap(eqx.combine(params, self.fixed))(x)


class Objective(eqx.Module):
    """The mean loss as a function of parameters and a batch `(x, y)`."""

    apply: Apply
    loss: ExampleLoss = eqx.field(static=True)

    def __call__(self, params: PyTree, batch: PyTree) -> Float[Array, ""]:
        x, y = batch
        return self.loss.of_outputs(self.apply(params, x), y)


class Subject:
    r"""A network with its loss and its data, checked.

    `network(x)` takes one example and returns an array: any Equinox module, or a `corollary.Network`. `loss` is a name
    such as `"cross_entropy"` (class labels; outputs are logits, one per class, or a single one for two classes) and
    `"squared"` (half the squared distance), or a function of one output and one target. `train` and `test` are pairs
    `(x, y)` of arrays. What is known of the training makes more of the audit possible: `init(key)` draws a new network,
    `initial` is the network that training started from, `learning_rate` and `batch_size` are its step and batch,
    `history` maps names such as `"loss"` to their course (an array alone is the loss). `trainable` selects the
    parameters, all real floating-point arrays by default.

    `train` and `test` hold the data in the form the loss takes: floating-point inputs in the type of the parameters,
    targets of the squared loss in the shape of the outputs. `notes` are sentences of an adapter about what it took for
    what. One sentence in a `SubjectError` says what does not fit.

    >>> Subject(network, "squared", data, learning_rate=0.1).size
    21
    """

    def __init__(
        self,
        network: NetworkLike,
        loss: LossLike,
        train: tuple[ArrayLike, ArrayLike],
        test: tuple[ArrayLike, ArrayLike] | None = None,
        *,
        init: Callable | None = None,
        initial: NetworkLike | None = None,
        learning_rate: float | None = None,
        batch_size: int | None = None,
        history: Mapping[str, ArrayLike] | ArrayLike | None = None,
        trainable: Any = None,
    ):
        with sentences():
            require_network(network)
            self.loss_name = loss if isinstance(loss, str) else "custom"
            self.loss = of_examples(loss, who="the audit")
            self._trainable = trainable
            self.params, fixed = split(network, trainable)
            self.dtype = jnp.result_type(*jax.tree.leaves(self.params))
            self.objective = Objective(Apply(fixed), self.loss)
            self.train = self._data("train", train)
            self._row = _checks.output_shape(self.apply, self.params, self.train[0])
            self._targets = self._with_targets("train")
            self.test = None
            if test is not None:
                self.test = self._data("test", test)
                if self.test[0].shape[1:] != self.train[0].shape[1:]:
                    raise SubjectError(
                        f"the test examples must have the shape of the training examples, {self.train[0].shape[1:]}, "
                        f"got {self.test[0].shape[1:]}."
                    )
                self._with_targets("test")
            self._look_at_outputs()
            require_apart(self.network, self.train[0])
            if loss == "cross_entropy":
                _checks.no_probabilities(self._outputs["train"])
            _checks.mean_loss(self.loss, self._outputs["train"], self.train[1])
            self.init = self._initialiser(init)
            self.initial_params = None
            if initial is not None:
                start = split(initial, trainable, name="initial").params
                self.initial_params = matched("initial", start, self.params)
            self.learning_rate = None if learning_rate is None else float(positive("learning_rate", learning_rate))
            n = self.train[0].shape[0]
            self.batch_size = None if batch_size is None else whole("batch_size", batch_size, 1, n)
            self.history = _history(history)
        self.notes: tuple[str, ...] = getattr(network, "notes", ())

    @property
    def network(self) -> NetworkLike:
        """The network, in inference mode."""
        return self.at(self.params)

    def at(self, params: PyTree) -> NetworkLike:
        """The network with these parameters in place of its own."""
        return eqx.combine(params, self.apply.fixed)

    @property
    def apply(self) -> Apply:
        """`apply(params, x)`: the outputs for a batch."""
        return self.objective.apply

    @property
    def size(self) -> int:
        """The number of parameters."""
        return sum(leaf.size for leaf in jax.tree.leaves(self.params))

    @property
    def classes(self) -> int | None:
        """The number of classes; None for a regression.

        Under the squared loss one-hot targets, and numbers of which all are 0 or 1, or all -1 or 1, are classes.
        """
        return self._targets.classes

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of the data there are."""
        return SPLITS if self.test is not None else SPLITS[:1]

    def data(self, split: str = "train") -> tuple[Float[Array, "..."], Num[Array, "..."]]:
        """The pair `(x, y)` of `"train"` or `"test"`."""
        with sentences():
            one_of("split", split, SPLITS)
        if split not in self.splits:
            raise SubjectError("this subject has no test data: give it test=(x, y).")
        return self.train if split == "train" else self.test

    def outputs(self, split: str | Float[ArrayLike, "..."] = "train") -> Float[Array, "..."]:
        """The outputs for the data of a split, or for an array of inputs."""
        if isinstance(split, str):
            self.data(split)
            return self._outputs[split]
        x = self._inputs("x", split)
        if x.shape[1:] != self.train[0].shape[1:]:
            raise SubjectError(f"x must have shape (n, {', '.join(map(str, self.train[0].shape[1:]))}), got {x.shape}.")
        return _checks.outputs(self.apply, self.params, x)

    def predict(self, x: str | Float[ArrayLike, "..."] = "train") -> Num[Array, "..."]:
        """The class of each example, a number from 0; for a regression the outputs."""
        out = self.outputs(x)
        return out if self.classes is None else _losses.decide(out, self._targets)

    def labels(self, split: str = "train") -> Int[Array, "_"]:
        """The true class of each example."""
        if self.classes is None:
            raise SubjectError("a regression has no class labels.")
        return _losses.label(self.data(split)[1], self._targets)

    def error(self, split: str = "train") -> float:
        """The share of the examples that are classified wrongly; for a regression the mean squared error per output."""
        y = self.data(split)[1]
        if self.classes is not None:
            return float(np.mean(np.asarray(self.predict(split)) != np.asarray(self.labels(split))))
        out = self.outputs(split)
        if y.size != out.size or not jnp.issubdtype(y.dtype, np.floating):
            raise SubjectError(
                f"the error is not defined for outputs of shape {out.shape} and targets of shape {y.shape} and dtype "
                f"{y.dtype} under a loss of your own: look at the loss instead."
            )
        return float(np.mean((np.asarray(out, float) - np.asarray(y, float).reshape(out.shape)) ** 2))

    def mean_loss(self, split: str = "train") -> float:
        """The mean loss over the data of a split."""
        return float(self.loss.of_outputs(self.outputs(split), self.data(split)[1]))

    def with_params(self, params: PyTree) -> "Subject":
        """The same network, data and loss at other parameters."""
        with sentences():
            params = matched("params", params, self.params)
            other = copy.copy(self)
            other.params = jax.tree.map(lambda new, old: new.astype(old.dtype), params, self.params)
            other._look_at_outputs()
        return other

    def __repr__(self) -> str:
        kind = "regression" if self.classes is None else f"{self.classes} classes"
        n = " + ".join(str(self.data(s)[0].shape[0]) for s in self.splits)
        return f"<Subject of {self.size} parameters, {self.loss_name} loss, {kind}, {n} examples>"

    @classmethod
    def from_sklearn(
        cls,
        estimator: Any,
        train: tuple[ArrayLike, ArrayLike],
        test: tuple[ArrayLike, ArrayLike] | None = None,
        **known: Any,
    ) -> "Subject":
        """A fitted network or linear model of scikit-learn, or a pipeline that ends in one, with its own loss.

        The penalty is not part of that loss. What the estimator tells of its training is taken, unless keywords of
        `Subject` say otherwise.
        """
        from corollary.audit._sklearn import from_sklearn

        return from_sklearn(cls, estimator, train, test, **known)

    def _inputs(self, name, x):
        with sentences():
            x = x if isinstance(x, jax.Array) else np.asarray(x)
            if x.ndim == 0 or x.shape[0] == 0:
                raise SubjectError(f"{name} must hold at least one example, got shape {tuple(x.shape)}.")
            # whole numbers stay what they are: they may be words
            if jnp.issubdtype(x.dtype, np.integer):
                return jnp.asarray(x)
            return real(name, x).astype(self.dtype)

    def _data(self, split, data):
        if not isinstance(data, tuple | list) or len(data) != 2:
            raise SubjectError(f"{split} must be a pair (x, y) of inputs and targets, got {type(data).__name__}.")
        return self._inputs(f"{split} x", data[0]), data[1]

    def _with_targets(self, split) -> _losses.Targets:
        x, y = getattr(self, split)
        found = _losses.targets(f"{split} y", self.loss_name, y, (x.shape[0], *self._row), self.dtype)
        setattr(self, split, (x, found.y))
        return found

    def _look_at_outputs(self):
        self._outputs = {s: _checks.outputs(self.apply, self.params, self.data(s)[0]) for s in self.splits}
        for name, out in self._outputs.items():
            _checks.finite("training" if name == "train" else "test", out)

    def _initialiser(self, init):
        if init is None:
            return None
        if not callable(init):
            raise SubjectError(f"init must be a function of a key, got {type(init).__name__}.")
        trainable = self._trainable

        def params(key):
            return matched("init(key)", split(init(key), trainable, name="init(key)").params, self.params)

        try:
            eqx.filter_eval_shape(params, jax.random.key(0))
        except Exception as error:
            raise SubjectError(
                f"init(key) must return a network under jit, but it failed: {first_line(error)}."
            ) from error
        return params


def _history(history) -> dict[str, Any] | None:
    if history is None:
        return None
    history = history if isinstance(history, Mapping) else {"loss": history}
    # a training that diverged has a history with infinities: they are what happened
    return {str(k): np.asarray(real(f"history {k!r}", v, "steps", finite=False)) for k, v in history.items()}
