"""The domain `ai.onnx.ml`, as far as converters write it for linear models, networks, and what prepares their data."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from corollary.onnx._table import floating, namespace, operator

DOMAIN = "ai.onnx.ml"


def numbers(values):
    return np.asarray(values, np.float32)


@operator("Scaler", domain=DOMAIN)
def scaler(node, x):
    return (floating(x) - numbers(node["offset"])) * numbers(node["scale"])


@operator("Normalizer", domain=DOMAIN)
def normalizer(node, x):
    """Each row divided by its norm; a row of zeros stays."""
    x = floating(x)
    xp, kind = namespace(x), node["norm"]
    if kind == "MAX":
        size = xp.max(xp.abs(x), axis=-1, keepdims=True)
    elif kind == "L1":
        size = xp.sum(xp.abs(x), axis=-1, keepdims=True)
    else:
        square = xp.sum(x * x, axis=-1, keepdims=True)
        size = xp.sqrt(xp.where(square == 0, 1, square))
    return x / xp.where(size == 0, 1, size)


@operator("Binarizer", domain=DOMAIN)
def binarizer(node, x):
    return (x > node["threshold"]).astype(x.dtype)


@operator("Imputer", domain=DOMAIN)
def imputer(node, x):
    """What stands for a missing number replaced, per column."""
    if node["imputed_value_int64s"]:
        values, missing = np.asarray(node["imputed_value_int64s"]), node["replaced_value_int64"]
    else:
        values, missing = numbers(node["imputed_value_floats"]), node["replaced_value_float"]
    xp = namespace(x)
    gone = xp.isnan(x) if isinstance(missing, float) and np.isnan(missing) else x == missing
    return xp.where(gone, values.astype(x.dtype), x)


@operator("FeatureVectorizer", domain=DOMAIN)
def feature_vectorizer(node, *xs):
    """The first columns of each input side by side."""
    lengths = node["inputdimensions"] or [x.shape[-1] for x in xs]
    columns = [floating(x.reshape(-1, x.shape[-1]))[:, :n] for x, n in zip(xs, lengths, strict=True)]
    return namespace(*columns).concatenate(columns, axis=1)


@operator("LabelEncoder", domain=DOMAIN)
def label_encoder(node, x):
    """Numbers looked up in a table of numbers."""
    keys = node["keys_int64s"] or node["keys_floats"] or node["keys_tensor"]
    values = node["values_int64s"] or node["values_floats"] or node["values_tensor"]
    if keys is None or values is None:
        raise node.refuse("for strings")
    whole = node["values_int64s"] is not None
    default = node["default_int64"] if whole else node["default_float"]
    if node["default_tensor"] is not None:
        default = node["default_tensor"].reshape(())
    keys, values, xp = np.asarray(keys), np.asarray(values), namespace(x)
    values = values if whole or values.dtype.kind in "iu" else values.astype(np.float32)
    hits = (x[..., None] == keys) | (xp.isnan(x)[..., None] & np.isnan(keys) if keys.dtype.kind == "f" else False)
    chosen = xp.asarray(values)[xp.argmax(hits, axis=-1)]
    return xp.where(xp.any(hits, axis=-1), chosen, default).astype(values.dtype)


@operator("OneHotEncoder", domain=DOMAIN)
def one_hot_encoder(node, x):
    if not node["cats_int64s"]:
        raise node.refuse("for strings")
    return (x[..., None] == np.asarray(node["cats_int64s"])).astype(np.float32)


def transformed(scores, kind):
    """Scores after the transformation that a linear model ends in."""
    if kind in (None, "NONE"):
        return scores
    if kind == "LOGISTIC":
        return jax.nn.sigmoid(scores)
    if kind == "SOFTMAX":
        return jax.nn.softmax(scores, axis=-1)
    if kind == "SOFTMAX_ZERO":  # scores of exactly zero stay zero
        shifted = jnp.where(scores == 0, 0, jnp.exp(scores - scores.max(axis=-1, keepdims=True)))
        return shifted / shifted.sum(axis=-1, keepdims=True)
    return jnp.sqrt(2.0) * jax.lax.erf_inv(2 * scores - 1)  # PROBIT


@operator("LinearRegressor", domain=DOMAIN)
def linear_regressor(node, x, coefficients=None, intercepts=None):
    return transformed(linear(node, x, node["targets"] or 1, coefficients, intercepts), node["post_transform"])


def linear(node, x, rows, coefficients, intercepts):
    """Scores from the attributes, or from arrays that were given in their place."""
    coefficients = numbers(node["coefficients"]) if coefficients is None else coefficients
    if intercepts is None and node["intercepts"]:
        intercepts = numbers(node["intercepts"])
    weights = coefficients.reshape(rows, -1)
    scores = jnp.asarray(floating(x)).reshape(-1, weights.shape[1]) @ weights.T
    return scores if intercepts is None else scores + intercepts


@operator("LinearClassifier", domain=DOMAIN)
def linear_classifier(node, x, coefficients=None, intercepts=None):
    """Labels and scores; with one score for two classes, the other one is its complement."""
    labels = node["classlabels_ints"] or node["classlabels_strings"] or []
    rows = len(node["intercepts"]) if node["intercepts"] else max(len(labels), 1)
    scores = linear(node, x, rows, coefficients, intercepts)
    kind = node["post_transform"]
    if rows == 1 and len(labels) == 2:
        if kind == "LOGISTIC":
            scores = jax.nn.sigmoid(jnp.concatenate([-scores, scores], axis=1))
            chosen = (scores[:, 1] > 0.5).astype(np.int32)
        else:
            scores = jnp.concatenate([-scores, scores], axis=1)
            chosen = (scores[:, 1] > 0).astype(np.int32)
            scores = transformed(scores, kind)
    else:
        chosen = jnp.argmax(scores, axis=1)
        scores = transformed(scores, kind)
    return (jnp.asarray(labels)[chosen] if node["classlabels_ints"] else None), scores


@operator("ZipMap", domain=DOMAIN)
def zip_map(node, x):
    """The array whose columns a ZipMap names."""
    return x
