"""A subject from a fitted multi-layer perceptron of scikit-learn, which knows its loss and how it was trained."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.audit._errors import SubjectError
from corollary.network import Network


def half_mean_squared(output, target):
    """Half the mean over the outputs of the squared error: scikit-learn's."""
    return 0.5 * jnp.mean((output - target) ** 2)


def from_sklearn(subject, estimator, train, test=None, **known):
    """The subject of a fitted `MLPClassifier` or `MLPRegressor`, with the labels that it was fitted to.

    The loss is the estimator's own without its penalty: cross-entropy, or half the mean squared error. The penalty
    `alpha` on the weights is no mean over examples and not part of the loss, so the gradient of the subject need not
    vanish where `fit` stopped; `notes` says so. Known of the training, unless keywords of `Subject` say otherwise: how
    the weights are drawn, the batch size, the course of the loss (with the penalty), and the learning rate where
    it is that of plain stochastic gradient descent.
    """
    from sklearn.neural_network import MLPClassifier

    network = Network.from_sklearn(estimator)
    if isinstance(estimator, MLPClassifier):
        if estimator.out_activation_ == "logistic" and estimator.n_outputs_ > 1:
            raise SubjectError("a multi-label MLPClassifier has no single class per example and cannot be audited.")
        loss = "cross_entropy"
        train, test = _numbered(estimator, "train", train), _numbered(estimator, "test", test)
    else:
        if estimator.loss != "squared_error":
            raise SubjectError(f"an MLPRegressor must have the loss 'squared_error', got {estimator.loss!r}.")
        loss = "squared" if estimator.n_outputs_ == 1 else half_mean_squared
    told = {name: value for name, value in known.items() if value is not None}
    return subject(network, loss, train, test, **(_training(estimator, network, train) | told))


def _training(estimator, network, train) -> dict:
    """What a fitted estimator tells of its training."""
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


def _numbered(estimator, split, data):
    """The data with the estimator's labels, which may be words, as numbers from 0."""
    if not isinstance(data, tuple | list) or len(data) != 2:
        return data
    y = np.asarray(data[1])
    known = np.isin(y, estimator.classes_)
    if not known.all():
        names = ", ".join(map(str, estimator.classes_[:10]))
        raise SubjectError(
            f"{split} y must hold the labels that the classifier was fitted to, {names}, got {y[~known].flat[0]!s}."
        )
    return data[0], np.searchsorted(estimator.classes_, y)
