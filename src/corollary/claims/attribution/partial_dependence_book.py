"""Chapter 12 of text M: its data, its classifier, and what each feature adds to the accuracy."""

import altair as alt
import jax.numpy as jnp
import numpy as np

from corollary.attribution import Game, coalition_accuracies, partial_dependence, shapley
from corollary.claims.attribution._book import Threshold, book_classifier, book_fit
from corollary.data import book_importance_data, book_importance_table
from corollary.evidence import claim, control, equal, picture, printed

DIGITS = {"rtol": 0, "atol": 1e-12}


def _boundary(theta):
    """Slope and intercept of the line where the classifier changes its answer."""
    return jnp.array([-theta[0], -theta[2]]) / theta[1]


def _accuracy(theta, data):
    return float(coalition_accuracies(Threshold(theta), "agreement", (data.x, data.y.astype(float)))[3])


@claim(rows=("M12.01", "M12.02"))
def book_data_and_classifier(key):
    r"""The chapter's points and its logistic regression, recovered to all printed digits.

    100 normal points from NumPy's stream of seed 0, label 1 where $y>0.3x+0.2+\frac12\eta$, the noise from a second
    stream of the same seed. Logistic regression with $\frac12\|w\|^2$ added to the sum of the losses has the weights
    $(-1.1379,3.0514)$ and the intercept -.8558: the boundary is $y=.37291x+.28044$, printed $.37x+.28$. Without the
    penalty it is another.
    """
    (x, y), table = book_importance_data(), book_importance_table()
    yield equal("Table 12.1, features", jnp.round(x[:5], 2), table.x, **DIGITS)
    yield equal("Table 12.1, labels", y[:5], table.y)
    yield equal("share of label 1", jnp.mean(y), 0.46, **DIGITS)
    theta, _ = book_fit()
    yield equal("weights and intercept", jnp.round(theta, 4), [-1.1379, 3.0514, -0.8558], **DIGITS)
    line = _boundary(theta)
    yield equal("slope and intercept of the boundary", jnp.round(line, 5), [0.37291, 0.28044], **DIGITS)
    yield equal("slope and intercept as printed", jnp.round(line, 2), [0.37, 0.28], **DIGITS)
    free, _ = book_fit(penalty=0.0)
    yield control(
        "half a squared norm as penalty: here none",
        equal("slope and intercept as printed", jnp.round(_boundary(free), 2), [0.37, 0.28], **DIGITS),
    )
    rows = [{"x": float(a), "y": float(b), "label": int(c)} for (a, b), c in zip(x, y, strict=True)]
    ends = [{"x": t, "y": float(line[0] * t + line[1])} for t in (-3.0, 3.0)]
    points = alt.Chart(alt.Data(values=rows)).mark_point().encode(x="x:Q", y="y:Q", color="label:N")
    yield picture("points and boundary", points + alt.Chart(alt.Data(values=ends)).mark_line().encode(x="x:Q", y="y:Q"))


@claim(
    rows=("M12.01",),
    erratum="Features and noise were drawn from one seed: the noise is the first half of the features.",
)
def noise_independent_of_the_features(key):
    r"""The printed boundary and accuracy come from noise that is independent of the features.

    As printed: "the $\eta_n$ are samples of a standard Gaussian distribution independent of the $(x_n,y_n)$'s". With
    noise that goes on where the features end the boundary is $.44x+.22$ and the accuracy .86; with that of the same
    seed, which is the list of features read from its beginning, they are the printed $.37x+.28$ and .92.
    """
    same, fresh = book_fit(), book_fit(fresh=True)
    found = [jnp.append(jnp.round(_boundary(theta), 2), _accuracy(theta, data)) for theta, data in (same, fresh)]
    as_printed = jnp.array([0.37, 0.28, 0.92])
    yield printed(equal("slope, intercept and accuracy, fresh noise", found[1], as_printed, **DIGITS))
    yield equal("slope, intercept and accuracy, noise of the same seed", found[0], as_printed, **DIGITS)
    yield equal("slope, intercept and accuracy with fresh noise", found[1], [0.44, 0.22, 0.86], **DIGITS)
    x, y = same[1]
    noise = np.asarray(x).ravel()[:100]  # as the labels show
    labels = x[:, 1] > 0.3 * x[:, 0] + 0.2 + noise / 2
    yield equal("labels with the features read in order as noise", y, labels)


@claim(rows=("M12.09", "M12.10", "M12.11"))
def book_coalitions(key):
    r"""In the chapter's example y adds 35 percent to the accuracy and x adds 7.

    $\alpha(\{x,y\})=.92$, $\alpha(\{x\})=.5425$, $\alpha(\{y\})=.8259$, $\alpha(\emptyset)=1-2\cdot.46\cdot.54=.5032$,
    since the mean answer is .46 and so is the share of label 1. $S_x=\frac12[\alpha(\{x\})-\alpha(\emptyset)+\alpha
    (\{x,y\})-\alpha(\{y\})]=.0667$ and $S_y=.3501$, which sum to .4168. For the empty coalition the pairs of the data
    are averaged: with $x$ and $y$ averaged independently it would be .5034.
    """
    network, (x, y) = book_classifier()
    alpha = coalition_accuracies(network, "agreement", (x, y))
    yield equal("accuracies of none, x, y, both", alpha, [0.5032, 0.5425, 0.8259, 0.92], **DIGITS)
    # half a unit of the printed digit
    yield equal("accuracies as printed", alpha, [0.50, 0.54, 0.83, 0.92], rtol=0, atol=0.005 + 1e-9)
    nobody = partial_dependence(network, x, ())
    yield equal("mean answer", nobody, 0.46, **DIGITS)
    share = float(jnp.mean(y))
    yield equal("accuracy of none, closed form", alpha[0], 1 - share * (1 - 0.46) - (1 - share) * 0.46, **DIGITS)
    steps = jnp.array([alpha[1] - alpha[0], alpha[3] - alpha[2], alpha[2] - alpha[0], alpha[3] - alpha[1]])
    yield equal("increments as printed", steps, [0.04, 0.09, 0.32, 0.38], rtol=0, atol=0.005 + 1e-9)
    values = shapley(Game.of_values(alpha)).values
    yield equal("Shapley values of x and y", values, [0.0667, 0.3501], **DIGITS)
    yield equal("Shapley values as printed", values, [0.07, 0.35], rtol=0, atol=0.005)
    yield equal("Shapley values by the two increments", values, [steps[:2].mean(), steps[2:].mean()], **DIGITS)
    apart = partial_dependence(network, x, 0).mean()
    trap = 1 - jnp.mean(jnp.abs(apart - y))
    yield equal("x and y averaged independently, to four digits", jnp.round(trap, 4), 0.5034, **DIGITS)
    at = jnp.linspace(-2.5, 2.5, 101)
    curves = {
        "x kept": partial_dependence(network, x, 0, at=jnp.stack([at, 0 * at], 1)),
        "y kept": partial_dependence(network, x, 1, at=jnp.stack([0 * at, at], 1)),
    }
    rows = [
        {"feature": float(a), "mean answer": float(v), "kept": name}
        for name, curve in curves.items()
        for a, v in zip(at, curve, strict=True)
    ]
    chart = alt.Chart(alt.Data(values=rows)).mark_line(interpolate="step-after")
    yield picture("partial dependence", chart.encode(x="feature:Q", y=alt.Y("mean answer:Q"), color="kept:N"))
