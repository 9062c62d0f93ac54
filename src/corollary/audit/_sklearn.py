"""A subject from a fitted estimator of scikit-learn, which knows its loss and how it was trained."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from corollary.audit._errors import SubjectError
from corollary.network import Network
from corollary.network._sklearn import parts


def half_mean_squared(output, target):
    """Half the mean over the outputs of the squared error: scikit-learn's."""
    return 0.5 * jnp.mean((output - target) ** 2)


def _hinge(margin):
    return jnp.maximum(0, 1 - margin)


def _squared_hinge(margin):
    return _hinge(margin) ** 2


def _perceptron(margin):
    return jnp.maximum(0, -margin)


def _half_squared(margin):  # of an output and a label of -1 or 1
    return 0.5 * (1 - margin) ** 2


# of the margin, the output times the label -1 or 1
MARGINS = {
    "hinge": _hinge,
    "squared_hinge": _squared_hinge,
    "perceptron": _perceptron,
    "log_loss": lambda margin: jax.nn.softplus(-margin),
    "squared_error": _half_squared,
}


def of_margins(of_margin, output, target):
    """A loss of margins: every class against the others, or one output for the second of two classes."""
    output = jnp.atleast_1d(output)
    own = jnp.arange(output.size) == target if output.size > 1 else target == 1
    return jnp.sum(of_margin(jnp.where(own, output, -output)))


def from_sklearn(subject, estimator, train, test=None, **known):
    """The subject of a fitted network or linear model, with the labels that it was fitted to.

    The loss is the estimator's own without its penalty: cross-entropy, half the (mean) squared error, or the loss of
    margins of `LinearSVC`, `Perceptron`, `SGDClassifier` and `RidgeClassifier`, with more than two classes of every
    class against the others. The penalty on the weights is no mean over examples and not part of the loss, so the
    gradient of the subject need not vanish where `fit` stopped; `notes` says so. Known of the training of a network,
    unless keywords of `Subject` say otherwise: how the weights are drawn, the batch size, the course of the loss (with
    the penalty), and the learning rate where it is that of plain stochastic gradient descent.
    """
    from sklearn.base import is_classifier

    network, last = Network.from_sklearn(estimator), parts(estimator)[1]
    loss = _loss(last)
    if is_classifier(last):
        signed = loss in ("hinge", "squared")
        train, test = (_numbered(last, *part, signed) for part in (("train", train), ("test", test)))
    told = {name: value for name, value in known.items() if value is not None}
    made = subject(network, loss, train, test, **(_training(last, network, train) | told))
    if is_classifier(last) and made.classes is None:  # one output, and a loss of margins: it decides by its sign
        made._targets = made._targets._replace(classes=2)
    return made


def _loss(estimator):
    """The estimator's own loss without its penalty; one sentence where it is none of those that are known."""
    from sklearn.base import is_classifier

    kind = type(estimator).__name__
    outputs = getattr(estimator, "n_outputs_", 1)
    if kind == "MLPClassifier":
        if estimator.out_activation_ == "logistic" and outputs > 1:
            raise SubjectError("a multi-label MLPClassifier has no single class per example and cannot be audited.")
        return "cross_entropy"
    if kind == "MLPRegressor":
        if estimator.loss != "squared_error":
            raise SubjectError(f"an MLPRegressor must have the loss 'squared_error', got {estimator.loss!r}.")
        return "squared" if outputs == 1 else half_mean_squared
    if kind in ("LogisticRegression", "LogisticRegressionCV"):
        # liblinear fits every class against the others
        one_by_one = estimator.solver == "liblinear" and len(estimator.classes_) > 2
        return partial(of_margins, MARGINS["log_loss"]) if one_by_one else "cross_entropy"
    if kind in ("LinearRegression", "Ridge", "RidgeCV", "Lasso", "LassoCV", "ElasticNet", "ElasticNetCV"):
        return "squared"
    if kind == "SGDRegressor" and estimator.loss == "squared_error":
        return "squared"
    own = {"Perceptron": "perceptron", "RidgeClassifier": "squared_error", "RidgeClassifierCV": "squared_error"}
    name = own.get(kind) or getattr(estimator, "loss", None)
    if name not in MARGINS or not is_classifier(estimator):
        called = f"the loss of the {kind}" if name is None else f"the loss {name!r} of the {kind}"
        raise SubjectError(
            f"{called} is not known here: give one, Subject(Network.from_sklearn(estimator), loss, train), a name or a "
            "function of one output and one target."
        )
    two = {"hinge": "hinge", "squared_error": "squared", "log_loss": "cross_entropy"}
    if len(estimator.classes_) == 2 and name in two:
        return two[name]
    return partial(of_margins, MARGINS[name])


def _training(estimator, network, train) -> dict:
    """What a fitted estimator tells of its training."""
    if not hasattr(estimator, "coefs_"):
        return {}
    # Glorot's uniform law for weights and biases alike, as scikit-learn draws them
    factor = 2.0 if estimator.activation == "logistic" else 6.0
    layers = network.params

    def init(key):
        drawn = []
        for layer in layers:
            *keys, key = jax.random.split(key, 3)
            bound = np.sqrt(factor / sum(layer["w"].shape))
            drawn.append(
                {
                    name: jax.random.uniform(k, layer[name].shape, layer[name].dtype, -bound, bound)
                    for name, k in zip("wb", keys, strict=True)
                }
            )
        return network.with_params(drawn)

    out = {"init": init}
    if estimator.solver in ("sgd", "adam"):
        n = len(train[0]) if isinstance(train, tuple | list) and len(train) else 0
        size = 200 if estimator.batch_size == "auto" else estimator.batch_size
        out["batch_size"] = min(size, n) or None
        out["history"] = {"loss": np.asarray(estimator.loss_curve_, float)}
    if estimator.solver == "sgd" and estimator.learning_rate == "constant" and not estimator.momentum:
        out["learning_rate"] = estimator.learning_rate_init
    return out


def _numbered(estimator, split, data, signed):
    """The data with the estimator's labels, which may be words, as numbers from 0; `signed` ones are -1 and 1."""
    if not isinstance(data, tuple | list) or len(data) != 2:
        return data
    y = np.asarray(data[1])
    known = np.isin(y, estimator.classes_)
    if not known.all():
        names = ", ".join(map(str, estimator.classes_[:10]))
        raise SubjectError(
            f"{split} y must hold the labels that the classifier was fitted to, {names}, got {y[~known].flat[0]!s}."
        )
    numbers = np.searchsorted(estimator.classes_, y)
    return data[0], 2.0 * numbers - 1 if signed else numbers
