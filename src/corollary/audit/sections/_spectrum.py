"""All curvatures where training ended: how many directions are flat, and what they add up to."""

import altair as alt
import numpy as np
from scipy import stats

from corollary.audit.finding import Finding, Premise, short
from corollary.audit.sections._axes import logarithmic
from corollary.evidence import picture

# what is drawn of a density at least: a logarithmic axis has no zero
LEAST_SHARE = 1e-7


def density(operator, key, largest, least, seen, steps) -> Finding:
    found = operator.density(key=key, probes=4, steps=min(steps, operator.size))
    nodes, weights = np.ravel(found.nodes), np.ravel(found.weights) / found.nodes.shape[0]
    # the share of directions whose curvature is below a thousandth of the largest
    flat = float(weights[np.abs(nodes) < 1e-3 * max(abs(largest), abs(least))].sum())
    shares = np.asarray(
        [
            w[np.abs(n) < 1e-3 * max(abs(largest), abs(least))].sum()
            for n, w in zip(np.asarray(found.nodes), np.asarray(found.weights), strict=True)
        ]
    )
    spread = 1.96 * shares.std(ddof=1) / np.sqrt(len(shares))
    edges = np.linspace(least - 0.05 * (largest - least), largest + 0.05 * (largest - least), 60)
    mass, _ = np.histogram(nodes, edges, weights=weights)
    rows = [
        {"curvature": float(a), "end": float(b), "share": float(max(m, LEAST_SHARE))}
        for a, b, m in zip(edges[:-1], edges[1:], mass, strict=True)
    ]
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_bar()
        .encode(
            x=alt.X("curvature:Q", title="eigenvalue of the Hessian"),
            x2="end:Q",
            y=alt.Y("share:Q", title="share of all directions", **logarithmic([LEAST_SHARE, 1.0])),
            y2=alt.datum(LEAST_SHARE),
        )
    )
    return Finding(
        "flat directions",
        "fine",
        f"{short(100 * flat)} % of all directions are flat, their curvature below a thousandth of the largest: "
        "the loss hardly depends on them.",
        flat,
        (max(0.0, flat - spread), min(1.0, flat + spread)),
        theorem="The spectral density is the mean over random directions of the quadrature that Lanczos' steps give.",
        claim="landscape.operator_curvature.spectrum_from_products",
        premises=(seen, Premise("as many steps as there are directions", steps >= operator.size, f"{steps} steps")),
        figure=picture("spectral density of the Hessian", chart.properties(width=320, height=180)),
    )


def trace(operator, key, seen, plan) -> Finding:
    found = operator.trace(key=key, probes=plan.probes, method=plan.method)
    value, error = float(found.value), float(found.error)
    # Hutch++ samples with a third of its products
    samples = max(2, plan.probes // 3) if plan.method == "hutch++" else plan.probes
    quantile = float(stats.t.ppf(0.975, samples - 1))
    mean = value / operator.size
    return Finding(
        "trace of the Hessian",
        "fine",
        f"The curvatures of all {operator.size:,} directions add up to {short(value)}, {short(mean)} each on average.",
        value,
        (value - quantile * error, value + quantile * error),
        theorem="The expectation of zᵀHz over random signs z is the trace of H.",
        claim="landscape.operator_curvature.spectrum_from_products",
        premises=(seen, Premise("an estimate from random directions", None, f"{plan.probes} products")),
    )
