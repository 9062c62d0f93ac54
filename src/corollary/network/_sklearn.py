"""A network from a fitted estimator of scikit-learn: a perceptron of many layers or a linear model, in a pipeline."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.network._called import example_of
from corollary.network.network import Network

# scikit-learn's names; the last layer is left to the loss, which works on logits
ACTIVATIONS = {"identity": lambda z: z, "logistic": jax.nn.sigmoid, "tanh": jnp.tanh, "relu": jax.nn.relu}


def from_sklearn(estimator, example=None) -> Network:
    """The network of a fitted `MLPClassifier`, `MLPRegressor` or linear model, alone or at the end of a pipeline.

    The steps before it are fixed maps with their numbers as buffers. The outputs of a classifier are logits, numbered
    as in its `classes_`.
    """
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    steps, last = parts(estimator)
    if isinstance(last, MLPClassifier | MLPRegressor):
        params, function = _layers(last)
    else:
        params, function = _linear(last)
    maps, buffers = [], []
    for step in steps:
        way, numbers = _fixed(step)
        maps.append(way)
        buffers.append(numbers)
    width = (steps[0] if steps else last).n_features_in_
    if example is not None and example_of(example).shape != (width,):
        raise ValueError(f"example must have shape ({width},), got {np.shape(example)}.")

    def apply(params, buffers, x):
        for way, numbers in zip(maps, buffers, strict=True):
            x = way(numbers, x)
        return function(params, x)

    notes = _notes(last)
    return Network(apply, params, buffers, notes=notes) if steps else Network(function, params, notes=notes)


def parts(estimator):
    """The fitted steps of a pipeline before its last one, and the last; a search stands for the best it found."""
    from sklearn.base import BaseEstimator
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import check_is_fitted

    if not isinstance(estimator, BaseEstimator):
        raise TypeError(f"estimator must be an estimator of scikit-learn, got {type(estimator).__name__}.")
    try:
        check_is_fitted(estimator)
    except Exception:  # NotFittedError, and TypeError of what has no fit
        raise ValueError(f"the {type(estimator).__name__} is not fitted: call its fit first.") from None
    if hasattr(estimator, "best_estimator_"):
        return parts(estimator.best_estimator_)
    if not isinstance(estimator, Pipeline):
        return [], estimator
    steps = [step for _, step in estimator.steps if step is not None and step != "passthrough"]
    before, last = [], None
    for step in steps:  # a step may be a pipeline again
        inner, last = parts(step)
        before += [*inner, last]
    return before[:-1], last


def _layers(estimator):
    """The layers of a perceptron, and their function."""
    layers = [{"w": w, "b": b} for w, b in zip(estimator.coefs_, estimator.intercepts_, strict=True)]
    activation = ACTIVATIONS[estimator.activation]

    def function(params, x):
        for layer in params[:-1]:
            x = activation(x @ layer["w"] + layer["b"])
        return x @ params[-1]["w"] + params[-1]["b"]

    return layers, function


def _linear(estimator):
    """Weights and intercepts of a linear model, and their function; tried out against the estimator's own answer."""
    decide = getattr(estimator, "decision_function", None) or getattr(estimator, "predict", None)
    w, b = getattr(estimator, "coef_", None), getattr(estimator, "intercept_", None)
    refusal = TypeError(
        "estimator must be an MLPClassifier, an MLPRegressor, a linear model that answers with coef_ and intercept_, "
        f"or a pipeline that ends in one, got {type(estimator).__name__}."
    )
    if w is None or b is None or decide is None:
        raise refusal
    w = np.asarray(w.toarray() if hasattr(w, "toarray") else w, float)
    w = np.atleast_2d(w).T
    b = np.broadcast_to(np.asarray(b, float), w.shape[1:]).copy()
    x = np.random.default_rng(0).normal(size=(8, w.shape[0]))
    found = np.asarray(_quietly(decide, x), float)
    # rounding of sums of as many terms as there are features, in float32 where it was fitted in that
    rounding = 1e-5 * (np.abs(x) @ np.abs(w) + np.abs(b)).max()
    if found.size != 8 * w.shape[1] or np.abs(found.reshape(8, -1) - (x @ w + b)).max() > rounding:
        raise refusal
    return {"w": w, "b": b}, lambda params, x: x @ params["w"] + params["b"]


def _quietly(function, x):
    import warnings

    with warnings.catch_warnings():  # that x has no names of features
        warnings.simplefilter("ignore")
        return function(x)


def _fixed(step):
    """What a step of a pipeline does to one example, and the numbers that it does it with."""
    from sklearn.decomposition import PCA, TruncatedSVD
    from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

    if isinstance(step, StandardScaler):
        return _scaled, {"shift": _or(step.mean_, 0.0), "factor": 1 / _or(step.scale_, 1.0)}
    if isinstance(step, RobustScaler):
        return _scaled, {"shift": _or(step.center_, 0.0), "factor": 1 / _or(step.scale_, 1.0)}
    if isinstance(step, MinMaxScaler):
        numbers = {"shift": -step.min_ / step.scale_, "factor": step.scale_}
        low, high = step.feature_range
        return (_scaled, numbers) if not step.clip else (_clipped, numbers | {"low": float(low), "high": float(high)})
    if isinstance(step, MaxAbsScaler):
        numbers = {"shift": 0.0, "factor": 1 / step.scale_}
        return (_clipped, numbers | {"low": -1.0, "high": 1.0}) if getattr(step, "clip", False) else (_scaled, numbers)
    if isinstance(step, PCA | TruncatedSVD):
        matrix = step.components_.T
        if getattr(step, "whiten", False):
            matrix = matrix / np.sqrt(step.explained_variance_)
        return _turned, {"shift": getattr(step, "mean_", 0.0), "matrix": matrix}
    raise TypeError(
        f"the step {type(step).__name__} of the pipeline is none of StandardScaler, MinMaxScaler, MaxAbsScaler, "
        "RobustScaler, PCA and TruncatedSVD: transform the data with it, and give the rest of the pipeline."
    )


def _or(value, otherwise):
    return otherwise if value is None else value


def _scaled(numbers, x):
    return (x - numbers["shift"]) * numbers["factor"]


def _clipped(numbers, x):
    return jnp.clip(_scaled(numbers, x), numbers["low"], numbers["high"])


def _turned(numbers, x):
    return (x - numbers["shift"]) @ numbers["matrix"]


def _notes(estimator) -> tuple[str, ...]:
    """What training added to the loss and no loss here has."""
    if hasattr(estimator, "coefs_"):
        if not estimator.alpha:
            return ()
        return (
            f"scikit-learn adds the penalty alpha/2 = {estimator.alpha / 2:g} times the squared weights, divided by "
            "the number of examples in a batch; no loss here has it.",
        )
    said = []
    # a penalty of None switches it off, whatever its factor
    if getattr(estimator, "penalty", "l2") is not None:
        factors = [(name, getattr(estimator, name, None)) for name in ("alpha", "C")]
        said += [f"a penalty ({name}={value:g})" for name, value in factors if isinstance(value, int | float)]
    if getattr(estimator, "class_weight", None) is not None:
        said += [f"class weights ({estimator.class_weight})"]
    return tuple(
        f"scikit-learn fitted the {type(estimator).__name__} with {what}, which no loss here has." for what in said
    )
