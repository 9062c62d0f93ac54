"""What the texts print about Shapley values and is not so: the empty coalition, the joining feature, the bound."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary.attribution import Game, agreement, coalition_accuracies, coalition_values, feature_game, shapley
from corollary.claims.attribution._book import book_classifier
from corollary.evidence import Size, at_most, claim, equal, printed


@claim(rows=("T10.08",), erratum="The utility of nobody is left out: the values sum to U([N]) - U(∅).")
def values_sum_to_the_utility_of_all(key, *, features: Size = 6, points: Size = 6):
    r"""Shapley values sum to the utility of all players.

    As printed: payments "such that" $\sum_is_i=U([N])$, for the definition by increments and for both settings of the
    text: features of an input, where $U(S)$ is the output with the others at a baseline, and training points, where it
    is the performance after training on $S$. Neither $U(\emptyset)$ is 0: a network has an output for the baseline, and
    a model without data has a performance. The values sum to $U([N])-U(\emptyset)$.
    """

    @jax.jit
    def measure(key):
        net_key, x_key, data_key, noise_key = jax.random.split(key, 4)
        network = eqx.nn.MLP(features, "scalar", 8, 1, activation=jnp.tanh, key=net_key)
        x = jax.random.normal(x_key, (features,))
        inputs = jax.random.normal(data_key, (points + 50, 2))
        y = inputs @ jnp.array([1.0, -2.0]) + 1 + 0.1 * jax.random.normal(noise_key, (points + 50,))

        def performance(inside):
            """Minus the squared test error of ridge regression on the training points that are inside."""
            a = inputs[:points] * inside[:, None]
            w = jnp.linalg.solve(a.T @ a + 0.1 * jnp.eye(2), a.T @ y[:points])
            return -jnp.mean((inputs[points:] @ w - y[points:]) ** 2)

        games = feature_game(network, x, jnp.zeros((1, features))), Game(points, performance)
        ends = [coalition_values(game)[jnp.array([0, -1])] for game in games]
        return jnp.stack([shapley(game).values.sum() for game in games]), jnp.stack(ends)

    sums, ends = measure(key)
    yield printed(equal("sum of the values, features and training points", sums, ends[:, 1]))
    yield equal("sum of the values, less the utility of nobody", sums, ends[:, 1] - ends[:, 0])


@claim(rows=("M12.12",), erratum="The feature that joins is f, not x, which is in half of the sets already.")
def the_same_feature_joins(key, *, features: Size = 4):
    r"""The Shapley value of f is a mean of what the feature x adds.

    As printed: $S_f=\frac1N\sum_{F\subset\mathcal F\setminus\{f\}}\binom{N-1}{|F|}^{-1}(\alpha(F\cup\{x\})-\alpha(F))$.
    For $f=x$ that is right. For another feature the sum is over sets to half of which $x$ belongs already, and says
    nothing of $f$: in the chapter's example it gives $S_y=.02$ where the text has .35.
    """
    sets = np.arange(2**features)
    own = np.arange(features)[:, None]
    outside = (sets >> own) & 1 == 0
    sizes = np.bitwise_count(sets)
    weights = np.array(shapley_weight(features))[np.minimum(sizes, features - 1)] * outside

    @jax.jit
    def measure(table):
        as_printed = jnp.sum(weights * (table[sets | 1] - table[sets]), 1)
        corrected = jnp.sum(weights * (table[sets | (1 << own)] - table[sets]), 1)
        return as_printed, corrected, shapley(Game.of_values(table)).values

    as_printed, corrected, values = measure(jax.random.normal(key, (2**features,)))
    yield printed(equal("values of the features", as_printed, values, rtol=0, atol=1e-13))
    yield equal("values of the features, each joining itself", corrected, values, rtol=0, atol=1e-13)
    yield equal("value of x", as_printed[0], values[0], rtol=0, atol=1e-13)
    network, data = book_classifier()
    alpha = coalition_accuracies(network, "agreement", data)
    example = ((alpha[1] - alpha[0]) + (alpha[1] - alpha[1])) / 2
    yield equal("the chapter's y by the printed sum, to two digits", jnp.round(example, 2), 0.02, atol=1e-12)


def shapley_weight(players: int) -> list[float]:
    """One over N times the number of sets of each size."""
    count, weights = 1, []
    for size in range(players):
        weights.append(1 / (players * count))
        count = count * (players - 1 - size) // (size + 1)
    return weights


@claim(rows=("M12.13",), erratum="An accuracy below 0 is not excluded, and increments are then larger than α.")
def bounded_by_the_largest_accuracy(key):
    r"""Shapley values are at most the largest accuracy, whatever sign accuracies may have.

    As printed: if $\alpha\le\bar\alpha$ then $S_f\le\bar\alpha$, dropping $-\alpha(F)$ from every increment. The text
    also lets accuracy be a constant less the error. With the labels of the chapter's data called 0 and 10, and its
    classifier answering so, $1-\frac1n\sum|m-\ell|$ is at most 1, and -4 for no feature: $y$ has the value 3.5. What
    holds is $S_f\le\max\alpha-\min\alpha$.
    """
    network, (x, y) = book_classifier()
    alpha = coalition_accuracies(lambda one: 10 * network(one), agreement, (x, 10 * y))
    values = shapley(Game.of_values(alpha)).values
    yield at_most("the premise: accuracies", alpha, 1.0)
    yield printed(at_most("values of x and y", values, 1.0))
    yield at_most("values of x and y, by the spread", values, alpha.max() - alpha.min())
