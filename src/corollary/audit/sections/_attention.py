"""How far attention is spread, block by block, at the start and after training."""

from typing import NamedTuple

import altair as alt
import jax
import numpy as np
from scipy import stats

from corollary._charts import MEASURED, WRONG
from corollary.audit import _plan
from corollary.audit._sample import some
from corollary.audit.finding import Finding, Premise, short
from corollary.evidence import picture
from corollary.nets.attention import AttentionSpread, attention_spread
from corollary.network.batches import count

NAME = "attention by block"
# so many examples in so many parts, for the interval: each is a mean over heads and queries already
MOST, PARTS = 64, 4


class Attended(NamedTuple):
    """Spreads on parts of the examples where training starts and where it ends (None where the start is not known)."""

    start: tuple[AttentionSpread, ...] | None
    end: tuple[AttentionSpread, ...]
    examples: int


def measure(subject, start, budget, key) -> Attended | None:
    """None for a network without attention."""
    x = some(subject.train[0], min(MOST, _plan.batch_of(subject, budget, MOST)), key)
    n = count(x)
    parts = [jax.tree.map(lambda a, i=i: a[i::PARTS], x) for i in range(PARTS if n >= PARTS else 1)]

    def spreads(params):
        return tuple(attention_spread(subject.at(params), part, batch_size=max(1, n // PARTS)) for part in parts)

    end = spreads(subject.params)
    if not end[0].entropy.size:
        return None
    return Attended(None if start.kind == "trained" else spreads(start.params), end, n)


def judge(found: Attended, start, total: int) -> Finding:
    first = found.end if found.start is None else found.start
    entropy, logits = _by_block(first)
    least = int(entropy.mean(0).argmin())
    value = float(entropy[:, least].mean())
    text = f"{start.where} the entropy of the attention is {_range(entropy.mean(0))} of that of equal weights"
    text += f", least in block {least + 1} of {entropy.shape[1]}" if entropy.shape[1] > 1 else ""
    text += f", and the logits that one query compares differ by {short(logits.max())} at most"
    if found.start is not None:
        after, later = _by_block(found.end)
        text += f"; after training by {short(later.max())}, and the entropy is {_range(after.mean(0))}"
    return Finding(
        NAME,
        "fine",
        text + ". At 0 % each query takes one key, and the softmax passes next to no gradient.",
        value,
        _interval(entropy[:, least]),
        unit="of its largest",
        theorem="Logits that grow with the dimension saturate the softmax: one key gets all the weight, and the "
        "derivative by the logits dies.",
        claim="nets.attention.dot_product_scaling.saturation",
        premises=(
            start.premise,
            Premise("all training examples were used", found.examples == total, f"{found.examples:,} of {total:,}"),
        ),
        # of one block there is nothing to be seen that was not said
        figure=_chart(found) if entropy.shape[1] > 1 else None,
    )


def _by_block(parts):
    """Entropies by part and block, and the largest logits by block."""
    return np.stack([p.entropy for p in parts]), np.stack([p.logits for p in parts]).max(0)


def _interval(values) -> tuple[float, float]:
    if len(values) < 2:
        return 0.0, 1.0
    reach = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return max(0.0, float(values.mean() - reach)), min(1.0, float(values.mean() + reach))


def _range(shares) -> str:
    low, high = (f"{100 * a:.3g}" for a in (shares.min(), shares.max()))
    return f"{low} %" if low == high else f"{low} to {high} %"


def _chart(found: Attended):
    named = {"at the start": found.start, "after training": found.end} if found.start else {"at the end": found.end}
    rows = [
        {"block": i + 1, "of": name, "share": float(share)}
        for name, parts in named.items()
        for i, share in enumerate(_by_block(parts)[0].mean(0))
    ]
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_line(point=True)
        .encode(
            x=alt.X("block:O", title="block", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("share:Q", title="entropy, of its largest", scale=alt.Scale(domain=[0, 1])),
            color=alt.Color(
                "of:N",
                title=None,
                scale=alt.Scale(domain=list(named), range=[WRONG, MEASURED][-len(named) :]),
                legend=alt.Legend(orient="bottom"),
            ),
        )
    )
    return picture(NAME, chart.properties(width=320, height=160))
