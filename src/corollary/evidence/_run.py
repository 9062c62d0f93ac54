"""Run one claim in this process."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from corollary.evidence._check import Check, Figure
from corollary.evidence._claim import Claim
from corollary.evidence._code import code_version, sources
from corollary.evidence._device import device_kind
from corollary.evidence._errors import described
from corollary.evidence._evidence import Evidence, verdict, versions
from corollary.evidence._staleness._tracer import Tracer

MOST = 10_000  # checks and figures of one claim


def run(
    claim: Claim,
    seed: int = 0,
    *,
    scale: str = "quick",
    report: Callable[[Check | Figure], None] = lambda item: None,
    **overrides: Any,
) -> Evidence:
    """Measure a claim: its checks in a float64 scope, with the key of `seed`; `report` hears of each as it comes.

    >>> run(claims()["foundations.matrices.algebra"], seed=3).verdict
    'holds'
    """
    return measure(claim, seed, scale, claim.values(scale, overrides), report)


def items(function: Callable, seed: int, values: dict) -> Iterator[Check | Figure]:
    """What a claim yields, in a float64 scope and with the key of `seed`."""
    import jax

    with jax.enable_x64(True):
        yield from function(jax.random.key(seed), **values)


def measure(
    claim: Claim,
    seed: int,
    scale: str,
    values: dict,
    report: Callable[[Check | Figure], None],
    *,
    trace: bool = False,
    caught: type[BaseException] = Exception,
) -> Evidence:
    """Measure a claim at parameters that are bound already. What it raises is an error in the evidence, if `caught`.

    With `trace` the evidence says which definitions of ours were called.
    """
    import jax

    tracer = Tracer(sources(claim.module.partition(".")[0])) if trace else None
    started, clock = datetime.now(UTC).isoformat(timespec="seconds"), time.perf_counter()
    checks, figures, error = [], [], None
    try:
        with closing(items(claim.function, seed, values)) as found:
            for item in tracer.items(found) if tracer else found:
                if not isinstance(item, Check | Figure):
                    raise TypeError(f"A claim yields checks and figures, not {type(item).__name__}.")
                report(item)  # first: what cannot be written down must not get into the evidence
                if len(checks) + len(figures) == MOST:
                    raise ValueError(f"A claim yields at most {MOST:,} checks and figures.")
                (checks if isinstance(item, Check) else figures).append(item)
    except caught as problem:
        error = f"{described(problem)} ({_place(problem, claim)})"
    seconds = time.perf_counter() - clock
    made = evidence_of(claim, seed, scale, values, tuple(checks), tuple(figures), error, seconds, started)
    calls = tuple(sorted(map(":".join, tracer.called))) if tracer else None
    return replace(made, device=jax.default_backend(), calls=calls)


def _place(problem: BaseException, claim: Claim) -> str:
    """Where it was raised: the last line of the claim's own file, since what lies below is often not ours."""
    frames = traceback.extract_tb(problem.__traceback__) or traceback.extract_stack()
    own = [f for f in frames if f.filename == claim.function.__code__.co_filename]
    last = (own or frames)[-1]
    return f"{last.name}, line {last.lineno}"


def evidence_of(claim, seed, scale, values, checks, figures, error, seconds, started) -> Evidence:
    """The evidence of a run that ended, or that was cut short with `error`; its device is that of a new process."""
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
        code=code_version(claim.module, claim.name),
        checks=checks,
        figures=figures,
        error=reason,
        seconds=seconds,
        started=started,
        versions=versions(),
        device=device_kind(),
    )
