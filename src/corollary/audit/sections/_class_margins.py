"""By how much the true classes of the training examples are ahead."""

import altair as alt
import numpy as np

from corollary.audit.finding import Finding, short
from corollary.evidence import picture
from corollary.network.losses import IGNORED

# More than so many examples on the wrong side. Of places it says nothing: the next letter of a text is seldom certain,
# and healthy language models are wrong about half of them.
WRONG = 0.5


def measure(subject) -> tuple[np.ndarray, str]:
    """By how much every true class is ahead, and of what: examples, or places."""
    labels, axis = np.asarray(subject.labels("train")).reshape(-1), subject.class_axis
    out = np.asarray(subject.outputs("train"))
    out = out.astype(np.result_type(out.dtype, np.float32))
    if axis is None:
        margins = (out.reshape(-1) - subject.threshold) * np.where(labels == 1, 1, -1)
    else:
        known = labels != IGNORED
        out, labels = np.moveaxis(out, axis, -1).reshape(len(labels), -1)[known], labels[known]
        own = out[np.arange(len(labels)), labels]
        out[np.arange(len(labels)), labels] = -np.inf
        margins = own - out.max(1)
    return margins, "examples" if len(margins) == len(subject.outputs("train")) else "places"


def judge(margins: np.ndarray, what: str) -> Finding:
    wrong = float(np.mean(margins <= 0))
    middle = float(np.median(margins))
    counts, edges = np.histogram(margins, 40)
    rows = [
        {"margin": float(a), "end": float(b), "examples": int(c)}
        for a, b, c in zip(edges[:-1], edges[1:], counts, strict=True)
    ]
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_bar()
        .encode(
            x=alt.X("margin:Q", title="output of the true class above the next"),
            x2="end:Q",
            y=alt.Y("examples:Q", title=what),
            y2=alt.datum(0),
        )
    )
    return Finding(
        "median margin",
        "look" if what == "examples" and wrong >= WRONG else "fine",
        f"Half of the training {what} have their true class {_place(middle)}; {short(100 * wrong)} % are on the wrong "
        "side.",
        middle,
        exact=True,
        theorem="An example is classified rightly when its margin is positive, and its loss falls with the margin.",
        claim="foundations.likelihood.logistic_loss_of_the_margin",
        figure=picture("margins of the training examples", chart.properties(width=320, height=180)),
        headline="Most training examples are on the wrong side",
    )


def _place(middle: float) -> str:
    """Where the true class of the better half is."""
    return f"ahead by {short(middle)} or more" if middle >= 0 else f"behind by {short(-middle)} at most, or ahead"
