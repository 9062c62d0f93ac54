r"""The data of chapters 2, 3 and 12 of *Mathematical Foundations of Deep Learning Models and Algorithms* (text M).

The text prints the first five rows of each data set. The features of all of them were recovered: the generators
below give the printed rows. The labels were not, except where a rule gives them; the functions named `surrogate`
draw stand-in labels with the printed statistics in mind, and nothing printed about labels should be expected of them.

After these, random data of the same three kinds, drawn with a key.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._types import Scalar
from corollary._validate import one_of, real, whole, within
from corollary.catalog import implements
from corollary.data._types import Data

__all__ = [
    "book_importance_data",
    "book_importance_table",
    "book_linear_features",
    "book_linear_surrogate",
    "book_linear_table",
    "book_logistic_features",
    "book_logistic_surrogate",
    "book_logistic_table",
    "book_multiclass_features",
    "book_multiclass_surrogate",
    "book_multiclass_table",
    "book_perfect_data",
    "book_perfect_table",
    "book_scored_table",
    "linear_data",
    "logistic_data",
    "softmax_data",
]

LAWS = ("normal", "uniform", "exponential", "lognormal", "student")


@implements("M02.01")
def book_linear_table() -> Data:
    """Table 2.1 as printed."""
    return _data([5.8, 1.5, 2.7, 9.4, 6.5], [19.0, 3.5, 10.4, 19.2, 6.6])


@implements("M03.01")
def book_logistic_table() -> Data:
    """Table 3.1 as printed."""
    return _data([10.84, 6.49, 7.66, 14.40, 11.47], [1, 0, 1, 1, 1])


@implements("M03.14")
def book_scored_table() -> Data:
    """Table 3.2 as printed: Table 3.1 scored, with `ddof=0` although the text defines it with 1."""
    return _data([1.67, -0.24, 0.27, 3.24, 1.95], [1, 0, 1, 1, 1])


@implements("M03.17")
def book_perfect_table() -> Data:
    """Table 3.4 as printed."""
    return _data([1.79, 0.44, 0.10, -1.86, -0.28], [1, 1, 1, 0, 0])


@implements("M03.21")
def book_multiclass_table() -> Data:
    """Table 3.5 as printed: the classes are 1, 2, 3."""
    return _data([[3.73, 1.30], [2.16, 6.82], [3.94, -2.83], [2.10, -0.35], [-0.01, 1.33]], [2, 2, 3, 2, 1])


@implements("M12.01")
def book_importance_table() -> Data:
    """Table 12.1 as printed."""
    return _data([[1.76, 0.40], [0.98, 2.24], [1.87, -0.98], [0.95, -0.15], [-0.10, 0.41]], [0, 1, 0, 0, 0])


@implements("M12.01")
def book_importance_data(*, fresh: bool = False) -> Data:
    r"""The 100 points behind Table 12.1: label 1 where $y>0.3x+0.2+\frac12\eta$, features $(x,y)$ normal.

    The text drew features and noise $\eta$ from the same seed: the noise is the first half of the features, point by
    point. With `fresh` noise, which goes on where the features end, the printed results do not come out.
    """
    stream = np.random.RandomState(0)
    x = stream.randn(100, 2)
    noise = (stream if fresh else np.random.RandomState(0)).randn(100)
    return _data(x, (x[:, 1] > 0.3 * x[:, 0] + 0.2 + noise / 2).astype(int))


@implements("M02.01")
def book_linear_features() -> Float[Array, "_"]:
    """The 100 features behind Table 2.1."""
    return jnp.asarray(np.exp(np.random.RandomState(0).randn(100)))


@implements("M03.01")
def book_logistic_features() -> Float[Array, "_"]:
    """The 50 features behind Table 3.1."""
    return jnp.asarray(5 + np.exp(np.random.RandomState(0).randn(50)))


@implements("M03.17")
def book_perfect_data() -> Data:
    """The 100 separable points behind Table 3.4: features and labels, class 1 where the feature is positive."""
    x = np.random.RandomState(3).randn(100)
    return _data(x, (x > 0).astype(int))


@implements("M03.21")
def book_multiclass_features(n: int = 100) -> Float[Array, "_ _"]:
    """The first `n` features behind Table 3.5; how many the text drew is not known."""
    z = np.random.RandomState(0).randn(whole("n", n), 2)
    return jnp.asarray(z * [2, 3] + [0.2, 0.1])


@implements("M02.01")
def book_linear_surrogate() -> Data:
    """Surrogate: the recovered features with invented labels `1.6 x + 5 + 4.3 noise`. Some labels are negative."""
    x = np.exp(np.random.RandomState(0).randn(100))
    return _data(x, 1.6 * x + 5 + 4.3 * np.random.RandomState(7).randn(100))


@implements("M03.01")
def book_logistic_surrogate() -> Data:
    """Surrogate: the recovered features with invented labels, drawn from a logistic curve at 6.97 of scale 0.45."""
    x = 5 + np.exp(np.random.RandomState(0).randn(50))
    p = 1 / (1 + np.exp(-(x - 6.97) / 0.45))
    return _data(x, (np.random.RandomState(7).rand(50) < p).astype(int))


@implements("M03.21")
def book_multiclass_surrogate(n: int = 100) -> Data:
    """Surrogate: the recovered features with invented labels 0, 1, 2, drawn from the softmax model worked in 3.7."""
    z = np.random.RandomState(0).randn(whole("n", n), 2)
    x = z * [2, 3] + [0.2, 0.1]
    logits = x @ np.array([[2, 1], [1, 0], [1, -3]]).T + [3, 0, -1]
    # The greatest of logits plus independent Gumbel noise is distributed by the softmax of the logits.
    return _data(x, np.argmax(logits + np.random.RandomState(7).gumbel(size=(n, 3)), axis=1))


def linear_data(
    theta: Float[ArrayLike, "p"], n: int, *, key: PRNGKeyArray, noise: Scalar = 1.0, law: str = "normal"
) -> Data:
    r"""$y=w\cdot x+b+\mathrm{noise}\cdot\xi$ with normal $\xi$ and `theta` $=(w_1,\dots,w_d,b)$.

    The features are independent with the given `law`; `x` has shape (n,) if there is one, else (n, d).

    >>> linear_data([2.0, 1.0], 5, key=key).x.shape
    (5,)
    """
    theta = _theta(theta)
    noise = within("noise", real("noise", noise, ""), 0.0)
    feature_key, noise_key = jax.random.split(key)
    x = _draw(feature_key, (whole("n", n), theta.shape[0] - 1), law, theta.dtype)
    y = x @ theta[:-1] + theta[-1] + noise * jax.random.normal(noise_key, (n,), theta.dtype)
    return Data(_squeeze(x), y)


def logistic_data(theta: Float[ArrayLike, "p"], n: int, *, key: PRNGKeyArray, law: str = "normal") -> Data:
    r"""$y\sim\mathrm{Bernoulli}(S(w\cdot x+b))$ with `theta` $=(w_1,\dots,w_d,b)$; features as in `linear_data`."""
    theta = _theta(theta)
    feature_key, label_key = jax.random.split(key)
    x = _draw(feature_key, (whole("n", n), theta.shape[0] - 1), law, theta.dtype)
    p = jax.nn.sigmoid(x @ theta[:-1] + theta[-1])
    return Data(_squeeze(x), jax.random.bernoulli(label_key, p).astype(int))


def softmax_data(theta: Float[ArrayLike, "J p"], n: int, *, key: PRNGKeyArray, law: str = "normal") -> Data:
    r"""Classes $y\in\{0,\dots,J-1\}$ with probabilities $S_{softmax}(Wx+b)$.

    `theta` is $(W\mid b)$ of shape (J, d + 1); `x` has shape (n, d) also for one feature.
    """
    theta = real("theta", theta, "J p")
    if theta.shape[0] < 2 or theta.shape[1] < 2:
        raise ValueError(f"theta must have at least 2 rows, each of weights and a bias, got shape {theta.shape}.")
    feature_key, label_key = jax.random.split(key)
    x = _draw(feature_key, (whole("n", n), theta.shape[1] - 1), law, theta.dtype)
    return Data(x, jax.random.categorical(label_key, x @ theta[:, :-1].T + theta[:, -1]).astype(int))


def _data(x, y) -> Data:
    return Data(jnp.asarray(x), jnp.asarray(y))


def _theta(theta):
    theta = real("theta", theta, "p")
    if theta.shape[0] < 2:
        raise ValueError(f"theta must hold at least one weight and the bias, got shape {theta.shape}.")
    return theta


def _squeeze(x):
    return x[:, 0] if x.shape[1] == 1 else x


def _draw(key, shape, law, dtype):
    one_of("law", law, LAWS)
    if law == "uniform":
        return jax.random.uniform(key, shape, dtype, minval=-1, maxval=1)
    if law == "exponential":
        return jax.random.exponential(key, shape, dtype)
    if law == "student":
        return jax.random.t(key, 5.0, shape, dtype)
    normal = jax.random.normal(key, shape, dtype)
    return jnp.exp(normal) if law == "lognormal" else normal
