r"""Gradients of a mean by the parameters of its law: by the score, and along samples that move with the parameters."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import ArrayLike, Float, PRNGKeyArray, PyTree

from corollary._types import Scalar
from corollary._validate import one_of, real, whole
from corollary.catalog import implements


@implements("M15.10", "M15.37")
def score_gradient(
    f: Callable,
    law: Callable,
    theta: PyTree,
    z: Float[ArrayLike, "k ..."],
    *,
    weights: Float[ArrayLike, "k"] | None = None,
    baseline: Scalar = 0.0,
) -> PyTree:
    r"""$\sum_kw_k(f(z_k)-b)\nabla_\theta\ln g_\theta(z_k)$, which is $\nabla_\theta\mathbb E f(Z)$ in the mean.

    `law(theta)` has `log_prob(z)`; `z` holds samples of it along the first axis, with weights $\frac1k$, or all its
    values or the nodes of a rule with theirs. `f` needs no derivative; the support of the law must not depend on
    $\theta$. The `baseline` $b$ changes the variance and not the mean.
    """
    terms = _score_terms(f, law, theta, z, baseline)
    return jax.tree.map(lambda g: jnp.tensordot(_weights(weights, len(g)), g, 1), terms)


@implements("M15.11", "T14.14")
def reparametrised_gradient(
    f: Callable,
    law: Callable,
    theta: PyTree,
    eps: Float[ArrayLike, "k ..."],
    *,
    weights: Float[ArrayLike, "k"] | None = None,
) -> PyTree:
    r"""$\sum_kw_k\nabla_\theta f(z_\theta(\epsilon_k))$, in the mean $\nabla_\theta\mathbb E f(Z)$ for smooth $f$.

    `law(theta)` has `reparametrise(eps)`; `eps` holds samples of the noise, or the nodes of a rule with `weights`.
    Where $f$ jumps the gradient of the jump is missed.
    """
    terms = _path_terms(f, law, theta, eps)
    return jax.tree.map(lambda g: jnp.tensordot(_weights(weights, len(g)), g, 1), terms)


@implements("M15.12")
def estimator_variance(
    f: Callable, law: Callable, theta: PyTree, samples: int, *, key: PRNGKeyArray, how: str, baseline: Scalar = 0.0
) -> PyTree:
    r"""The variance of one term of an estimator, measured on `samples` of them: one number per parameter.

    `how` is `"score"` or `"reparametrised"`; `law(theta)` has `reparametrise` and, for the score, `log_prob`.

    >>> import jax
    >>> law = lambda theta: DiagonalGaussian(theta[:1], theta[1:])
    >>> square = lambda z: z[0] ** 2
    >>> spread = estimator_variance(square, law, jnp.array([0.7, 0.5]), 10_000, key=key, how="reparametrised")
    >>> bool(abs(spread[0] - 1.0) < 0.1)
    True
    """
    one_of("how", how, ("score", "reparametrised"))
    eps = jax.random.normal(key, (whole("samples", samples, 2), *jnp.shape(law(theta).mean)))
    if how == "reparametrised":
        terms = _path_terms(f, law, theta, eps)
    else:
        terms = _score_terms(f, law, theta, law(theta).reparametrise(eps), baseline)
    return jax.tree.map(lambda g: jnp.var(g, axis=0, ddof=1), terms)


def _score_terms(f, law, theta, z, baseline):
    _functions(f, law)
    z = lax.stop_gradient(real("z", z))
    scores = jax.vmap(lambda z: jax.grad(lambda theta: law(theta).log_prob(z))(theta))(z)
    values = jax.vmap(f)(z) - real("baseline", baseline, "")
    return jax.tree.map(lambda s: values.reshape((-1,) + (1,) * (s.ndim - 1)) * s, scores)


def _path_terms(f, law, theta, eps):
    _functions(f, law)
    return jax.vmap(lambda eps: jax.grad(lambda theta: f(law(theta).reparametrise(eps)))(theta))(real("eps", eps))


def _weights(weights, count):
    return jnp.full(count, 1 / count) if weights is None else real("weights", weights, "k", {"k": count})


def _functions(f, law):
    for name, value, what in (("f", f, "a function of z"), ("law", law, "a function of theta that returns a law of z")):
        if not callable(value):
            raise TypeError(f"{name} must be {what}, got {type(value).__name__}.")
