"""Run one claim in this process."""

import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime

from corollary.evidence._check import Check, Figure
from corollary.evidence._claim import Claim
from corollary.evidence._code import code_version
from corollary.evidence._evidence import Evidence, verdict, versions


def run(
    claim: Claim,
    seed: int = 0,
    *,
    scale: str = "quick",
    report: Callable[[Check | Figure], None] = lambda item: None,
    **overrides,
) -> Evidence:
    """Measure a claim: its checks in a float64 scope, with the key of `seed`; `report` hears of each as it comes."""
    import jax

    values = claim.values(scale, overrides)
    started, clock = datetime.now(UTC).isoformat(timespec="seconds"), time.perf_counter()
    checks, figures, error = [], [], None
    try:
        with jax.enable_x64(True):
            for item in claim.function(jax.random.key(seed), **values):
                if isinstance(item, Check):
                    checks.append(item)
                elif isinstance(item, Figure):
                    figures.append(item)
                else:
                    raise TypeError(f"A claim yields checks and figures, not {type(item).__name__}.")
                report(item)
    except Exception as problem:
        last = traceback.extract_tb(problem.__traceback__)[-1]
        error = f"{type(problem).__name__}: {problem} ({last.name}, line {last.lineno})"
    return evidence_of(
        claim, seed, scale, values, tuple(checks), tuple(figures), error, time.perf_counter() - clock, started
    )


def evidence_of(claim, seed, scale, values, checks, figures, error, seconds, started) -> Evidence:
    """The evidence of a run that ended, or that was cut short with `error`."""
    found, reason = ("error", error) if error is not None else verdict(checks)
    return Evidence(
        claim=claim.id,
        title=claim.title,
        rows=claim.rows,
        expected=claim.expected,
        verdict=found,
        seed=seed,
        scale=scale,
        parameters=values,
        code=code_version(claim.module),
        checks=checks,
        figures=figures,
        error=reason,
        seconds=seconds,
        started=started,
        versions=versions(),
    )
