"""A network from a fitted multi-layer perceptron of scikit-learn."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.network.network import Network

# scikit-learn's names; the last layer is left to the loss, which works on logits
ACTIVATIONS = {"identity": lambda z: z, "logistic": jax.nn.sigmoid, "tanh": jnp.tanh, "relu": jax.nn.relu}


def from_sklearn(estimator, example=None) -> Network:
    """The network of a fitted `MLPClassifier` or `MLPRegressor`; the outputs of a classifier are logits.

    The classes of a classifier are numbered as in its `classes_`.
    """
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    if not isinstance(estimator, MLPClassifier | MLPRegressor):
        raise TypeError(f"estimator must be an MLPClassifier or an MLPRegressor, got {type(estimator).__name__}.")
    if not hasattr(estimator, "coefs_"):
        raise ValueError(f"the {type(estimator).__name__} is not fitted: call its fit first.")
    layers = [{"w": w, "b": b} for w, b in zip(estimator.coefs_, estimator.intercepts_, strict=True)]
    if example is not None and np.shape(example) != layers[0]["w"].shape[:1]:
        raise ValueError(f"example must have shape {layers[0]['w'].shape[:1]}, got {np.shape(example)}.")
    activation = ACTIVATIONS[estimator.activation]

    def apply(params, x):
        for layer in params[:-1]:
            x = activation(x @ layer["w"] + layer["b"])
        return x @ params[-1]["w"] + params[-1]["b"]

    notes = ()
    if estimator.alpha:
        notes = (
            f"scikit-learn adds the penalty alpha/2 = {estimator.alpha / 2:g} times the squared weights, divided by "
            "the number of examples in a batch; no loss here has it.",
        )
    return Network(apply, layers, notes=notes)
