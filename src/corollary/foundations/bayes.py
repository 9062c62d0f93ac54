r"""The best that can be predicted: conditional expectation, Bayes error, and the vote, on finite spaces.

A law of $(X,Y)$ is a table `joint` of shape (k, j): entry $(a,b)$ is the probability of the a-th feature with the b-th
label. A predictor is a vector, its prediction for each feature.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int

from corollary._validate import concrete, labels, real
from corollary.catalog import implements
from corollary.foundations._laws import probabilities


@implements("M01.17", "M01.18")
def conditional_mean(joint: Float[ArrayLike, "..."], values: Float[ArrayLike, "j"]) -> Float[Array, "..."]:
    r"""$m_{opt}(x)=E[Y|X=x]$ for each feature, `values` being what the labels are worth: (k,)."""
    joint, values = _law(joint, values)
    return joint @ values / joint.sum(1)


@implements("M01.17")
def bayes_error(joint: Float[ArrayLike, "..."], values: Float[ArrayLike, "j"]) -> Float[Array, ""]:
    r"""$E[(Y-E[Y|X])^2]=E[\mathrm{Var}(Y|X)]$: no predictor of $Y$ from $X$ has a smaller mean squared error."""
    joint, values = _law(joint, values)
    return jnp.sum(joint * (values - (joint @ values / joint.sum(1))[:, None]) ** 2)


@implements("M01.18")
def mean_squared_error(
    joint: Float[ArrayLike, "..."], values: Float[ArrayLike, "j"], predictor: Float[ArrayLike, "_"]
) -> Float[Array, ""]:
    r"""$E[(Y-g(X))^2]$ for the predictor $g$, one prediction a feature."""
    joint, values = _law(joint, values)
    predictor = real("predictor", predictor, str(joint.shape[0]))
    return jnp.sum(joint * (values - predictor[:, None]) ** 2)


@implements("M01.14")
def bayes_classifier(joint: Float[ArrayLike, "..."]) -> Int[Array, "_"]:
    r"""The most probable label of each feature, the first of several: with two labels, the vote at 1/2."""
    return jnp.argmax(_table(joint), axis=1)


@implements("M01.14")
def error_probability(joint: Float[ArrayLike, "..."], rule: Int[ArrayLike, "_"]) -> Float[Array, ""]:
    r"""$P\{Y\ne h(X)\}$ for the classifier $h$, one label per feature."""
    joint = _table(joint)
    rule = labels("rule", rule, joint.shape[1], str(joint.shape[0]))
    return jnp.sum(joint * (1 - jax.nn.one_hot(rule, joint.shape[1], dtype=joint.dtype)))


def _table(joint, dims=None):
    joint = probabilities("joint", joint, "k j", dims)
    if concrete(joint) and (empty := np.asarray(joint).sum(1) == 0).any():
        raise ValueError(
            f"joint must give every feature a positive probability, got zero for row {int(empty.argmax())}."
        )
    return joint


def _law(joint, values):
    dims = {}
    return _table(joint, dims), real("values", values, "j", dims)
