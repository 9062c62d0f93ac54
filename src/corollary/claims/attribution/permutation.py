"""The average over all shuffles of a feature: an accuracy of the partial dependence, and one Shapley increment."""

from itertools import permutations
from math import factorial, log, pi

import jax
import jax.numpy as jnp
import numpy as np

from corollary.attribution import (
    Game,
    agreement,
    coalition_accuracies,
    permutation_importance,
    shapley,
    shuffle_feature,
)
from corollary.evidence import Size, at_least, at_most, claim, control, equal, printed, rate


def _over_shuffles(network, score, x, y):
    """The metric on the data, and on all shuffles of each of two columns: (), (2, n!)."""
    orders = jnp.array(list(permutations(range(x.shape[0]))))

    def metric(x):
        return jnp.mean(jax.vmap(lambda one, label: score(network(one), label))(x, y))

    shuffled = [jax.vmap(lambda order, f=f: metric(shuffle_feature(x, f, order)))(orders) for f in (0, 1)]
    return metric(x), jnp.stack(shuffled)


def _problem(key, n):
    """Points in the plane with labels 0 and 1, and the probabilities of a logistic model."""
    x_key, y_key, w_key = jax.random.split(key, 3)
    w = 3 * jax.random.normal(w_key, (2,))
    x = jax.random.normal(x_key, (n, 2))
    return x, 1.0 * jax.random.bernoulli(y_key, shape=(n,)), lambda one: jax.nn.sigmoid(w @ one)


@claim(rows=("M12.04", "M12.08"))
def average_over_shuffles(key, *, n: Size = 6):
    r"""The mean accuracy over all shuffles of a feature is the accuracy of the partial dependence on the others.

    For labels 0 and 1, $m\in[0,1]$ and the accuracy $1-\frac1n\sum|m-\ell|$: a uniform shuffle brings every $x_j$ to
    every row equally often, and $|m-\ell|$ is affine in $m$. So $\bar{\mathcal A}_{x\text{-shuffles}}=\alpha(\{y\})$,
    and the permutation importance of $x$ is one increment of its Shapley value, $\alpha(\{x,y\})-\alpha(\{y\})$. The
    mean over all $n!$ shuffles of any score of single examples is its mean over the $n^2$ pairs of rows. A feature that
    $m$ does not use, and one that is constant, have the importance 0.
    """
    square = lambda output, label: 1 - (output - label) ** 2  # noqa: E731

    @jax.jit
    def measure(key):
        x, y, network = _problem(key, n)
        out = {}
        for name, score, labels in (("", agreement, y), ("square", square, y), ("inside", agreement, 0.45 + 0.1 * y)):
            base, shuffled = _over_shuffles(network, score, x, labels)
            alpha = coalition_accuracies(network, score, (x, labels))
            exact = permutation_importance(network, score, (x, labels)).values
            out[name] = base - shuffled.mean(1), exact, alpha[3] - alpha[jnp.array([2, 1])]
        first_only = permutation_importance(lambda one: network(one.at[1].set(0.0)), agreement, (x, y)).values[1]
        constant = permutation_importance(network, agreement, (x.at[:, 1].set(0.7), y)).values[1]
        return out, jnp.stack([first_only, constant])

    out, nothing = measure(key)
    # means of 720 numbers of size 1
    yield equal("importance over all shuffles and over pairs", out[""][0], out[""][1], rtol=0, atol=1e-13)
    yield equal(
        "squared score: over all shuffles and over pairs", out["square"][0], out["square"][1], rtol=0, atol=1e-13
    )
    yield equal("importance and Shapley increment", out[""][0], out[""][2], rtol=0, atol=1e-13)
    yield equal("importance of a feature that is not used or constant", nothing, 0.0, rtol=0, atol=1e-15)
    yield control(
        "a score affine in the output: here squared",
        equal("importance and Shapley increment", out["square"][0], out["square"][2], rtol=0, atol=1e-13),
    )
    yield control(
        "labels 0 and 1: here .45 and .55",
        equal("importance and Shapley increment", out["inside"][0], out["inside"][2], rtol=0, atol=1e-13),
    )


@claim(rows=("M12.04",), erratum="The sum over the shuffles is missing, and the number of them is not divided by.")
def average_without_a_sum(key, *, n: Size = 5):
    r"""The average over shuffles is n! over the number of shuffles, times the accuracy after a shuffle.

    As printed: $\bar{\mathcal A}_{x\text{-shuffles}}=\frac{N!}{\text{number of }x\text{-shuffles }\tilde{\mathcal D}_x}
    \mathcal A_{\tilde{\mathcal D}_x}$. There are $N!$ shuffles, so that this is the accuracy after one of them, and
    depends on which. The average is the sum over all of them, divided by $N!$; it is the accuracy, less the permutation
    importance.
    """

    @jax.jit
    def measure(key):
        x, y, network = _problem(key, n)
        base, shuffled = _over_shuffles(network, agreement, x, y)
        return shuffled, base - permutation_importance(network, agreement, (x, y)).values

    shuffled, mean = measure(key)
    as_printed = factorial(n) / shuffled.shape[1] * shuffled
    yield printed(equal("average, from each shuffle of x and of y", as_printed, mean[:, None], rtol=0, atol=1e-12))
    yield equal("average, sums over all shuffles", shuffled.sum(1) / factorial(n), mean, rtol=0, atol=1e-13)


@claim(rows=("M12.07",), no_control="a formula for whole numbers: there is no premise to break")
def stirling(key, *, largest: Size = 1000):
    r"""The number of shuffles is root 2 pi n times (n/e) to the n, up to a factor that tends to 1.

    $\ln n!-\ln\big(\sqrt{2\pi n}(n/e)^n\big)$ lies between $\frac1{12n+1}$ and $\frac1{12n}$ (Robbins), so that the
    ratio tends to 1 as $1+\frac1{12n}$. 100 points have more than $10^{157}$ shuffles.
    """
    n = np.arange(1, largest + 1)
    exact = np.array([log(factorial(int(k))) for k in n])  # logarithms of whole numbers, known to 1e-16 of themselves
    excess = exact - (0.5 * np.log(2 * pi * n) + n * (np.log(n) - 1))
    rounding = 1e-15 * exact[-1]
    yield at_most("excess, upper bound", excess, 1 / (12 * n), atol=rounding, x=n, along="n")
    yield at_least("excess, lower bound", excess, 1 / (12 * n + 1), atol=rounding, x=n, along="n")
    # 1/12n less 1/360n³: from 4 on the slope is -1 up to 1 % or so
    yield rate("excess", n[3:], excess[3:], -1.0, tolerance=0.02, along="n")
    yield at_least("digits of 100!", len(str(factorial(100))), 158)


@claim(rows=("M12.14",), erratum="Permutation importance has a sign too: it is one of the Shapley value's increments.")
def shuffling_has_no_direction(key):
    r"""Permutation importance has no direction, where Shapley values may be negative.

    As printed: "Feature permutation does not include a direction, whereas Shapley values can be positive or negative".
    On the three points of the exercises with labels 0, 1, 0 the classifier $1[y>x^2]$ is always wrong, and shuffling
    $y$ helps: the importance of $y$ is $-\frac29$, which is the increment $\alpha(\{x,y\})-\alpha(\{x\})$ of its
    Shapley value.
    """
    x = jnp.array([[0.5, 1.0], [-2.0, 3.0], [1.0, 5.0]])
    y = jnp.array([0.0, 1.0, 0.0])
    network = lambda one: jnp.where(one[1] > one[0] ** 2, 1.0, 0.0)  # noqa: E731
    importance = permutation_importance(network, "agreement", (x, y)).values
    alpha = coalition_accuracies(network, "agreement", (x, y))
    yield printed(at_least("permutation importance", importance, 0.0))
    yield equal("permutation importance of y", importance[1], -2 / 9)
    yield equal("permutation importance and increments", importance, alpha[3] - alpha[jnp.array([2, 1])], atol=1e-14)


@claim(rows=("M12.14",))
def copies_share_the_credit(key, *, n: Size = 40, copies: Size = 3):
    r"""A feature with copies has no permutation importance; Shapley values share the credit among them.

    Three identical features, a label that is their sign, and the majority of the three signs as classifier. Shuffling
    one of them changes no majority: the permutation importance of each is 0. The accuracy without any of them is
    $1-2p(1-p)$, $p$ the share of positive ones, and each has the Shapley value $\frac23p(1-p)$. A feature without
    copies has $2p(1-p)$ by both methods.
    """
    majority = lambda one: jnp.where(jnp.sum(one > 0) > one.size / 2, 1.0, 0.0)  # noqa: E731

    @jax.jit
    def measure(key):
        one = jax.random.normal(key, (n, 1))
        y = 1.0 * (one[:, 0] > 0)
        found = []
        for k in (copies, 1):
            data = jnp.repeat(one, k, 1), y
            alpha = coalition_accuracies(majority, "agreement", data)
            found += [permutation_importance(majority, "agreement", data).values, shapley(Game.of_values(alpha)).values]
        return found, jnp.mean(y)

    (importance, values, importance_alone, value_alone), p = measure(key)
    yield equal("permutation importance of each copy", importance, 0.0, atol=1e-14)
    yield equal("Shapley value of each copy", values, 2 * p * (1 - p) / copies)
    alone = jnp.concatenate([importance_alone, value_alone])
    yield equal("importance and Shapley value without copies", alone, 2 * p * (1 - p))
    yield control("there are copies: here none", equal("permutation importance", importance_alone, 0.0, atol=1e-14))
