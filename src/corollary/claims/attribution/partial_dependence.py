"""Partial dependence: an average over the data, which is a conditional expectation where features are independent."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np

from corollary.attribution import Game, coalition_accuracies, partial_dependence, shapley
from corollary.evidence import Positive, Size, claim, control, equal


@claim(rows=("M12.09",))
def independent_features(key, *, n: Size = 12, correlation: Positive = 0.8):
    r"""Partial dependence is the conditional expectation given the features kept, where the others are independent.

    $m_{1,0}(x)=\frac1n\sum_jm(x,y_j)$. For $m=f(x)+g(y)$ it is $f(x)+\bar g$ on any data. On data in which every $x$
    meets every $y$ it is the mean of $m$ over the points with that $x$; not where $y$ depends on $x$. With all features
    kept it is $m$, with none the mean output.
    """
    network = lambda one: jnp.tanh(one[0] + 2 * one[1]) + one[0] * one[1] ** 2  # noqa: E731
    additive = lambda one: jnp.exp(one[0]) + jnp.sin(3 * one[1])  # noqa: E731

    @jax.jit
    def measure(key):
        one, two = jax.random.split(key)
        a, b = jax.random.normal(one, (n,)), jax.random.normal(two, (n,))

        def both(slope):
            y = slope * a[:, None] + (1 - slope**2) ** 0.5 * b
            x = jnp.stack([jnp.broadcast_to(a[:, None], (n, n)), y], -1)
            given = jax.vmap(jax.vmap(network))(x).mean(1)
            return partial_dependence(network, x.reshape(-1, 2), 0, at=x[:, 0]), given

        points = jnp.stack([a, correlation * a + b], 1)
        return {
            "independent": both(0.0),
            "dependent": both(correlation),
            "additive": (
                partial_dependence(additive, points, 0),
                jnp.exp(a) + jnp.sin(3 * points[:, 1]).mean(),
            ),
            "all": (partial_dependence(network, points, (0, 1)), jax.vmap(network)(points)),
            "none": (partial_dependence(network, points, ()), jnp.full(n, jax.vmap(network)(points).mean())),
        }

    m = measure(key)
    # means of some hundred numbers of size 1 to 30
    yield equal("additive function", *m["additive"], atol=1e-12)
    yield equal("independent features: mean given x", *m["independent"], atol=1e-12)
    yield equal("all features kept", *m["all"], atol=1e-12)
    yield equal("no feature kept", *m["none"], atol=1e-12)
    yield control("independent features: here correlated", equal("mean given x", *m["dependent"], atol=1e-12))


POINTS = np.array([[0.5, 1.0], [-2.0, 3.0], [1.0, 5.0]])


def _above_the_parabola(one):
    return jnp.where(one[1] > one[0] ** 2, 1.0, 0.0)


def _exercise(labels):
    """Outputs, partial dependences, accuracies and Shapley values of the three points, by the library."""
    y = np.array(labels, float)
    alpha = coalition_accuracies(_above_the_parabola, "agreement", (POINTS, y))
    means = [partial_dependence(_above_the_parabola, POINTS, kept) for kept in ((), (0,), (1,), (0, 1))]
    return np.stack(means), np.asarray(alpha), np.asarray(shapley(Game.of_values(alpha)).values)


def _by_hand(labels):
    """Accuracies and Shapley values in whole numbers."""
    x, y = [Fraction(1, 2), Fraction(-2), Fraction(1)], [1, 3, 5]
    m = [[Fraction(int(b > a * a)) for b in y] for a in x]  # rows x, columns y
    models = [
        [sum(m[i][i] for i in range(3)) / 3] * 3,
        [sum(row) / 3 for row in m],
        [sum(column) / 3 for column in zip(*m, strict=True)],
        [m[i][i] for i in range(3)],
    ]
    none, first, second, both = (
        1 - sum(abs(a - b) for a, b in zip(model, labels, strict=True)) / Fraction(3) for model in models
    )
    return models, [none, first, second, both], [(first - none + both - second) / 2, (second - none + both - first) / 2]


# three numbers of size 1: a few units in the last place
EXACT = {"rtol": 0, "atol": 1e-15}


def _floats(rationals):
    return np.array(rationals, float)


@claim(rows=("M12.15",))
def exercise_1(key):
    r"""Exercise 12.1: three points, one of them misclassified; the feature y has a negative Shapley value.

    Points $(\frac12,1),(-2,3),(1,5)$ with labels 1, 0, 0 and $m_0=1[y>x^2]$: $m_0=(1,0,1)$, $\hat m_{00}=\frac23$,
    $\hat m_{10}=(1,\frac13,\frac23)$, $\hat m_{01}=(\frac13,\frac23,1)$; accuracies $\frac49,\frac23,\frac29,\frac23$
    of $\hat m_{00},\hat m_{10},\hat m_{01},m_0$; $S_x=\frac13$, $S_y=-\frac19$.
    """
    third = Fraction(1, 3)
    models, accuracies, values = _exercise([1, 0, 0])
    by_hand = _by_hand([1, 0, 0])
    answer = [[2 * third] * 3, [1, third, 2 * third], [third, 2 * third, 1], [1, 0, 1]]
    yield equal("partial dependences", models, _floats(answer), **EXACT)
    yield equal("partial dependences by rational numbers", _floats(by_hand[0]), _floats(answer), rtol=0, atol=0)
    yield equal("accuracies", accuracies, _floats([Fraction(4, 9), 2 * third, Fraction(2, 9), 2 * third]), **EXACT)
    yield equal("accuracies by rational numbers", accuracies, _floats(by_hand[1]), **EXACT)
    yield equal("Shapley values of x and y", values, _floats([third, Fraction(-1, 9)]), **EXACT)
    yield equal("Shapley values by rational numbers", values, _floats(by_hand[2]), **EXACT)


@claim(rows=("M12.16",))
def exercise_2(key):
    r"""Exercise 12.2: with one label changed the classifier is perfect, and the value of y changes its sign.

    Labels 1, 0, 1: accuracies $\frac59,\frac79,\frac59,1$; $S_x=\frac13$ as before, $S_y=\frac19$.
    """
    third, ninth = Fraction(1, 3), Fraction(1, 9)
    _, accuracies, values = _exercise([1, 0, 1])
    by_hand = _by_hand([1, 0, 1])
    yield equal("accuracies", accuracies, _floats([5 * ninth, 7 * ninth, 5 * ninth, 1]), **EXACT)
    yield equal("accuracies by rational numbers", accuracies, _floats(by_hand[1]), **EXACT)
    yield equal("Shapley values of x and y", values, _floats([third, ninth]), **EXACT)
    yield equal("Shapley values by rational numbers", values, _floats(by_hand[2]), **EXACT)
    before = _exercise([1, 0, 0])[2]
    yield equal("change of the values since Exercise 12.1", values - before, _floats([0, 2 * ninth]), **EXACT)
