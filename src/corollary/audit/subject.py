r"""The network under audit, its loss, its data, and how it was trained as far as known.

    subject = Subject(network, "cross_entropy", (x, y), (x_test, y_test), learning_rate=0.1)
    subject.error("test"), subject.size, subject.classes
    jax.grad(subject.objective)(subject.params, subject.train)

Everything is looked at when the subject is made, so that no section of the audit has to doubt it: shapes, labels,
finite weights, data and outputs, a loss that is a mean, examples that do not influence each other.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, ArrayLike, Float, Int, Num, PyTree

from corollary._text import first_line
from corollary._types import LossLike, NetworkLike
from corollary._validate import one_of, positive, whole, within
from corollary.audit import _checks, _data, _losses, _text
from corollary.audit._cost import cost
from corollary.audit._errors import SubjectError, sentences
from corollary.audit._facts import checked_history, checked_optimiser, raised, said_of_halves
from corollary.audit._names import names_of
from corollary.network.apart import require_apart
from corollary.network.loss import ExampleLoss, of_examples
from corollary.network.losses import IGNORED
from corollary.network.parts import matched, require_network, split

SPLITS = ("train", "test")
#: What `Subject.replaced` puts in place of what was given.
FACTS = ("params", "initial_params", "learning_rate", "batch_size", "steps", "optimiser", "weight_decay")
_WORDS = {"train": "training", "test": "test"}


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

    `network(x)` takes one example, an array or a pytree of arrays, and returns an array: any Equinox module, or a
    `corollary.Network`. `loss` is a name, or a function of one output and one target:

    - `"cross_entropy"`: class labels (n,), outputs are logits, one per class, or a single one for two classes. Outputs
      with places (n, ..., k), tokens say, take a label per place (n, ...), -100 where there is none, and the loss is
      the mean over all places with one; (n, k, ...) with the classes first, as for images in PyTorch, is found by the
      shapes, and where both fit the last axis is taken.
    - `"binary_cross_entropy"`: several labels at once, or masks: targets 0 or 1 in the shape of the outputs.
    - `"squared"`, half the squared distance, `"absolute"`, `"huber"`: targets in the shape of the outputs.

    `train` and `test` are pairs `(x, y)`, or triples `(x, y, weights)` with a number for each example: the loss is then
    the weighted mean. Weights of classes are `class_weights[y]`. Under a loss of one's own `y` may be a pytree.

    What is known of the training makes more of the audit possible: `init(key)` draws a new network, `initial` is the
    network that training started from, `learning_rate` and `batch_size` are its step and batch, `steps` how many there
    were, `optimiser` the Optax transformation that took them (plain gradient descent if it is not given) and
    `weight_decay` what was added to the gradient, in units of the weights. `history` maps names such as `"loss"` to
    their course (an array alone is the loss). `trainable` selects the parameters, all real floating-point arrays by
    default. Numbers of 16 bits are raised to 32. `columns` are the names of the columns of a table, by which the audit
    then calls them; a data frame brings its own.

    `train` and `test` hold the data in the form the loss takes, and no more examples than can be looked at in minutes:
    `count` says how many were given. `notes` are sentences about what was taken for what. One sentence in a
    `SubjectError` says what does not fit.

    >>> Subject(network, "squared", data, learning_rate=0.1).size
    21
    """

    def __init__(
        self,
        network: NetworkLike,
        loss: LossLike,
        train: tuple,
        test: tuple | None = None,
        *,
        init: Callable | None = None,
        initial: NetworkLike | None = None,
        learning_rate: float | None = None,
        batch_size: int | None = None,
        steps: int | None = None,
        optimiser: optax.GradientTransformation | None = None,
        weight_decay: float | None = None,
        history: Mapping[str, ArrayLike] | ArrayLike | None = None,
        trainable: Any = None,
        columns: Sequence[str] | None = None,
    ):
        with sentences():
            require_network(network)
            self.loss_name = loss if isinstance(loss, str) else "custom"
            self.loss = of_examples(loss, who="the audit")
            self.trainable = trainable
            self.params, fixed = map(raised, split(network, trainable))
            self.dtype = jnp.result_type(*jax.tree.leaves(self.params))
            self.objective = Objective(Apply(fixed), self.loss)
            self.notes: tuple[str, ...] = (*getattr(network, "notes", ()), *said_of_halves(network))
            self._read(train, test)
            self.columns = names_of(columns, train[0], self.train[0], None if test is None else test[0])
            self._look_at_outputs()
            require_apart(self.network, self.train[0])
            if loss == "cross_entropy":
                _checks.no_probabilities(self._outputs["train"], self._targets.axis)
            _checks.mean_loss(self.loss, self._outputs["train"], self.train[1])
            self.init = self._initialiser(init)
            self.initial_params = None
            if initial is not None:
                start = raised(split(initial, trainable, name="initial").params)
                self.initial_params = matched("initial", start, self.params)
            step, decay = learning_rate, weight_decay
            self.learning_rate = None if step is None else _checks.number(positive, "learning_rate", step)
            self.batch_size = None if batch_size is None else whole("batch_size", batch_size)
            self.steps = None if steps is None else whole("steps", steps)
            self.weight_decay = None if decay is None else _checks.number(within, "weight_decay", decay, 0)
            self.optimiser = checked_optimiser(optimiser)
            if self.batch_size is not None and self.batch_size > self.count():
                self.notes += (
                    f"the batches of the training had {self.batch_size} examples, more than the {self.count()} given: "
                    "these were taken for a part of the training data.",
                )
            self.history = checked_history(history)

    def _read(self, train, test):
        """The data in the form that the loss takes, as many as can be looked at."""
        given = {"train": train} if test is None else {"train": train, "test": test}
        parts = {name: _data.taken_apart(name, data) for name, data in given.items()}
        lying = {name: _data.opened(f"{name} x", part[0]) for name, part in parts.items()}
        self._counts = {name: _data.count(value) for name, value in lying.items()}
        few = _data.inputs("train x", jax.tree.map(lambda a: a[: _checks.FEW], lying["train"]), self.dtype)
        row = _checks.output_shape(self.apply, self.params, few)
        if test is not None and not _data.same_kind(lying["test"], few):
            raise SubjectError(
                f"the test examples must have the shape of the training examples, {_data.spelled(few)}, "
                f"got {_data.spelled(lying['test'])}."
            )
        self.cost = cost(self.network, few)
        most = _data.most_of(few, self.cost, int(np.prod(row)))
        rows = {name: _data.drawn(n, most, i) for i, (name, n) in enumerate(self._counts.items())}
        tables, found, kept = None, {}, {}
        for name, (_, y, weights) in parts.items():
            n = self._counts[name]
            taken = [_data.rows_of(f"{name} {what}", a, rows[name], n) for what, a in (("y", y), ("weights", weights))]
            x = _data.inputs(f"{name} x", _data.rows_of(f"{name} x", lying[name], rows[name], n), self.dtype)
            tables = _text.require_tokens(f"{name} x", self.network, x, tables)
            shape = _data.count(x), *row
            found[name] = _losses.targets(f"{name} y", self.loss_name, taken[0], shape, self.dtype)
            if len(row) == 2 and found[name].axis == 2:
                _text.require_sequences(f"{name} x", x, shape, found[name].y)
            w = _data.weights(f"{name} weights", taken[1], found[name].counted, shape[0], self.dtype)
            kept[name] = x, found[name].y, w
        self._targets = found["train"]
        self.notes += () if self._targets.note is None else (self._targets.note,)
        self.weighted = any(w is not None for *_, w in kept.values())
        if self.weighted:
            self.loss = self.loss._replace(function=_data.Weighted(self.loss.function))
            self.objective = Objective(self.apply, self.loss)
        self.train = self.test = None
        for name, (x, y, w) in kept.items():
            n = _data.count(x)
            even = jnp.ones(n, self.dtype)
            setattr(self, name, (x, (y, even if w is None else w) if self.weighted else y))
            if n < self._counts[name]:
                self.notes += (
                    f"of {self._counts[name]} {_WORDS[name]} examples {n}, drawn at random, were "
                    "looked at: all of them would take too long or too much memory.",
                )

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

    def count(self, split: str = "train") -> int:
        """How many examples were given, of which `data` may hold a part."""
        self.data(split)
        return self._counts[split]

    def data(self, split: str = "train") -> tuple:
        """Inputs and targets of `"train"` or `"test"` as the loss takes them: targets `(y, weights)` if weighted."""
        with sentences():
            one_of("split", split, SPLITS)
        if split not in self.splits:
            raise SubjectError("this subject has no test data: give it test=(x, y).")
        return self.train if split == "train" else self.test

    def targets(self, split: str = "train") -> PyTree:
        """The targets alone, without weights."""
        y = self.data(split)[1]
        return y[0] if self.weighted else y

    def outputs(self, split: str | PyTree = "train") -> Float[Array, "..."]:
        """The outputs for the data of a split, or for inputs."""
        if isinstance(split, str):
            self.data(split)
            return self._outputs[split]
        with sentences():
            x = _data.inputs("x", split, self.dtype)
        if not _data.same_kind(x, self.train[0]):
            wanted = _data.spelled(self.train[0])
            raise SubjectError(f"x must have examples of shape {wanted}, got {_data.spelled(x)}.")
        return _checks.outputs(self.apply, self.params, x, self.cost)

    def predict(self, x: str | PyTree = "train") -> Num[Array, "..."]:
        """The class of each example, or of each of its places, a number from 0; for a regression the outputs."""
        out = self.outputs(x)
        return out if self.classes is None else _losses.decide(out, self._targets)

    def labels(self, split: str = "train") -> Int[Array, "..."]:
        """The true class of each example, or of each of its places; -100 at places without one."""
        if self.classes is None:
            raise SubjectError("a regression has no class labels.")
        return _losses.label(self.targets(split), self._targets)

    @property
    def class_axis(self) -> int | None:
        """The axis of the classes in a batch of outputs; None where every output is a number or a yes or no."""
        return self._targets.axis

    @property
    def threshold(self) -> float:
        """Above this an output that is a yes or no of its own says yes."""
        return self._targets.threshold

    def decide(self, outputs: Float[ArrayLike, "..."]) -> Int[Array, "..."]:
        """The classes that outputs, of the shape of the network's own, vote for."""
        return _losses.decide(outputs, self._targets)

    def error(self, split: str = "train") -> float:
        """The share of the examples (or places) classified wrongly; for a regression the mean squared error per output.

        Weights count in the loss alone.
        """
        if self.classes is not None:
            labels = np.asarray(self.labels(split))
            return float(np.mean((np.asarray(self.predict(split)) != labels)[labels != IGNORED]))
        out, y = self.outputs(split), self.targets(split)
        numbers = isinstance(y, jax.Array) and y.size == out.size and jnp.issubdtype(y.dtype, np.floating)
        if not numbers or self.loss_name == "binary_cross_entropy":
            kind = f"shape {y.shape} and dtype {y.dtype}" if isinstance(y, jax.Array) else "several arrays"
            raise SubjectError(
                f"the error is not defined for outputs of shape {out.shape} and targets of {kind} under the loss "
                f"{self.loss_name!r}: look at the loss instead."
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

    def with_network(self, network: NetworkLike) -> "Subject":
        """The same data, loss and facts with another network, of which all parameters are trained.

        Where it has the parameters of this one it starts where this one started.
        """
        other = copy.copy(self)
        other.params, fixed = split(network)
        other.objective, other.trainable = Objective(Apply(fixed), self.loss), None
        arrays = [jax.tree.leaves(self.params), jax.tree.leaves(other.params)]
        same = [a.shape for a in arrays[0]] == [a.shape for a in arrays[1]]
        form = jax.tree.structure(other.params)
        if self.initial_params is not None:
            other.initial_params = form.unflatten(jax.tree.leaves(self.initial_params)) if same else None
        if self.init is not None:
            init = self.init
            other.init = (lambda key: form.unflatten(jax.tree.leaves(init(key)))) if same else None
        other.cost = cost(network, self.train[0])
        other._look_at_outputs()
        return other

    def replaced(self, *, train: PyTree = None, test: PyTree = None, **facts: Any) -> "Subject":
        """The same network with other data, in the form that `train` and `test` of a subject have, or other facts.

        Facts are `params`, `initial_params`, `learning_rate`, `batch_size`, `steps`, `optimiser` and `weight_decay`.
        Another `learning_rate` goes into the optimiser too.
        """
        other = copy.copy(self)
        other._counts = dict(self._counts)
        for name, data in (("train", train), ("test", test)):
            if data is not None:
                other._counts[name] += _data.count(data) - _data.count(self.data(name))
                setattr(other, name, data)
        unknown = facts.keys() - FACTS
        if unknown:
            raise SubjectError(f"a subject has no fact {min(unknown)!r} to be replaced: {', '.join(FACTS)}.")
        step = facts.get("learning_rate")
        if step is not None and self.optimiser is not None and self.learning_rate is not None:
            other.optimiser = optax.chain(self.optimiser, optax.scale(step / self.learning_rate))
        for name, value in facts.items():
            setattr(other, name, value)
        other._look_at_outputs()
        return other

    def __repr__(self) -> str:
        kind = "regression" if self.classes is None else f"{self.classes} classes"
        n = " + ".join(str(self.count(s)) for s in self.splits)
        return f"<Subject of {self.size} parameters, {self.loss_name} loss, {kind}, {n} examples>"

    @classmethod
    def from_sklearn(
        cls,
        estimator: Any,
        train: tuple,
        test: tuple | None = None,
        **known: Any,
    ) -> "Subject":
        """A fitted network or linear model of scikit-learn, or a pipeline that ends in one, with its own loss.

        The penalty is not part of that loss. What the estimator tells of its training is taken, unless keywords of
        `Subject` say otherwise.
        """
        from corollary.audit._sklearn import from_sklearn

        return from_sklearn(cls, estimator, train, test, **known)

    def _look_at_outputs(self):
        self._outputs = {s: _checks.outputs(self.apply, self.params, self.data(s)[0], self.cost) for s in self.splits}
        for name, out in self._outputs.items():
            _checks.finite(_WORDS[name], out)

    def _initialiser(self, init):
        if init is None:
            return None
        if not callable(init):
            raise SubjectError(f"init must be a function of a key, got {type(init).__name__}.")
        trainable = self.trainable

        def params(key):
            return matched("init(key)", raised(split(init(key), trainable, name="init(key)").params), self.params)

        try:
            eqx.filter_eval_shape(params, jax.random.key(0))
        except Exception as error:
            raise SubjectError(
                f"init(key) must return a network under jit, but it failed: {first_line(error)}."
            ) from error
        return params
