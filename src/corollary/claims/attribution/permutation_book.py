"""Chapter 12 of text M: accuracies of its classifier after one shuffle, a hundred, and all of them."""

import altair as alt
import jax
import jax.numpy as jnp
import numpy as np

from corollary.attribution import permutation_importance, shuffle_feature
from corollary.claims.attribution._book import book_classifier
from corollary.evidence import claim, equal, picture, printed


def _orders(seed, *counts):
    """Shuffles of 100 rows from one stream of NumPy's."""
    stream = np.random.RandomState(seed)
    return [np.stack([stream.permutation(100) for _ in range(count)]) for count in counts]


@jax.jit
def _accuracies(network, x, y, one, many):
    def accuracy(x):
        return 1 - jnp.mean(jnp.abs(jax.vmap(network)(x) - y))

    shuffled = jnp.stack([jax.vmap(lambda order, f=f: accuracy(shuffle_feature(x, f, order)))(many[f]) for f in (0, 1)])
    return accuracy(x), [shuffle_feature(x, f, one) for f in (0, 1)], shuffled


def _measured():
    network, (x, y) = book_classifier()
    (one,), many = _orders(0, 1), np.stack(_orders(0, 100, 100))
    base, tables, shuffled = _accuracies(network, x, y, one[0], many)
    exact = base - permutation_importance(network, "agreement", (x, y)).values
    after_one = [1 - jnp.mean(jnp.abs(jax.vmap(network)(table) - y)) for table in tables]
    return base, tables, jnp.stack(after_one), shuffled, exact


@claim(rows=("M12.03", "M12.05", "M12.06"))
def book_shuffles(key):
    r"""The chapter's classifier loses little accuracy when x is shuffled, and much when y is.

    Its accuracy is .92; after the shuffles of Tables 12.2 and 12.3 it is .80 and .55, as in Table 12.4. Over 100
    shuffles of each feature the means are .8293 for $x$ and .5425 for $y$, which the text rounds to 82.9 and 54.3 %;
    over all $100!$ shuffles they are .8259 and .5425.
    """
    base, (of_x, of_y), after_one, shuffled, exact = _measured()
    digits = {"rtol": 0, "atol": 1e-12}
    yield equal("accuracy", base, 0.92, **digits)
    yield equal("Table 12.2, x", jnp.round(of_x[:5, 0], 2), [-0.51, 0.86, 1.87, 1.87, -0.07], **digits)
    yield equal("Table 12.3, y", jnp.round(of_y[:5, 1], 2), [-1.18, -0.65, -0.98, 0.91, 1.71], **digits)
    yield equal("accuracies after one shuffle, Table 12.4", after_one, [0.80, 0.55], **digits)
    means = np.asarray(shuffled).mean(1)
    yield equal("means over 100 shuffles, all digits", means, [0.8293, 0.5425], **digits)
    # 54.25 % is halfway between two of the printed numbers, and the text rounds it up
    yield equal("means over 100 shuffles as printed, percent", 100 * means, [82.9, 54.3], rtol=0, atol=0.05 + 1e-9)
    # hundredths of hundredths: there are 10,000 pairs of rows
    yield equal("means over all shuffles", exact, [0.8259, 0.5425], **digits)
    rows = [
        {"accuracy": float(value), "shuffled": name}
        for name, values in zip("xy", shuffled, strict=True)
        for value in values
    ]
    bars = alt.Chart(alt.Data(values=rows)).mark_bar(opacity=0.7)
    bars = bars.encode(x=alt.X("accuracy:Q", bin={"step": 0.01}), y="count():Q", color="shuffled:N")
    lines = alt.Chart(alt.Data(values=[{"accuracy": float(v)} for v in exact])).mark_rule(strokeDash=[4, 3])
    yield picture("accuracies after 100 shuffles, and their exact means", bars + lines.encode(x="accuracy:Q"))


@claim(rows=("M12.06",), erratum="The rows of the table are exchanged: 82.9 % belongs to x, 54.3 % to y.")
def exchanged_rows(key):
    r"""Shuffling y leaves 82.9 percent of the answers right, shuffling x 54.3 percent.

    As printed in Table 12.5, against Table 12.4 and the text's conclusion that $y$ is the more important. Over all
    shuffles the accuracy is 54.3 % for $y$ and 82.6 % for $x$; over the 100 that were drawn 82.9 % for $x$.
    """
    _, _, _, shuffled, exact = _measured()
    percent = 100 * np.asarray(shuffled).mean(1)
    as_printed = np.array([54.3, 82.9])  # x, y
    # half a unit of the printed digit
    yield printed(equal("percent after shuffles of x and of y", percent, as_printed, rtol=0, atol=0.05 + 1e-9))
    yield equal("percent, rows exchanged", percent, as_printed[::-1], rtol=0, atol=0.05 + 1e-9)
    # the standard error of 100 shuffles is .3 % here
    yield equal("percent over all shuffles, rows exchanged", 100 * exact, as_printed[::-1], rtol=0, atol=1.5)
