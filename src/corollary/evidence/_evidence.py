"""Evidence: what a run of a claim leaves behind, and its form as JSON."""

import json
import math
import platform
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.metadata import version

from corollary import __version__
from corollary.evidence._check import Check, Figure

SCHEMA = 2


@dataclass(frozen=True)
class Evidence:
    """The outcome of one claim at one seed and one set of parameters."""

    claim: str
    title: str
    rows: tuple[str, ...]
    expected: str
    verdict: str
    seed: int
    scale: str
    parameters: dict
    code: str
    checks: tuple[Check, ...] = ()
    figures: tuple[Figure, ...] = ()
    error: str | None = None
    seconds: float = 0.0
    started: str = ""
    versions: dict = field(default_factory=dict)
    device: str = ""  # the kind of device it ran on: cpu, gpu, tpu
    calls: tuple[str, ...] | None = None  # `module:name` of every definition of ours that it called, where traced

    @property
    def jax(self) -> str:
        return self.versions.get("jax", "")

    @property
    def as_expected(self) -> bool:
        return self.verdict == self.expected

    @property
    def controls(self) -> tuple[Check, ...]:
        return tuple(c for c in self.checks if c.control is not None)


def verdict(checks: tuple[Check, ...]) -> tuple[str, str | None]:
    """The verdict that the checks support, and the reason where nothing was shown.

    A claim holds when it was checked and everything passed; with printed checks among them, all of which were
    violated while everything else passed, the printed statement is refuted. It fails when a plain check was violated
    or a printed one was not. Anything else (no check, nothing to compare, too few samples, a control without teeth)
    shows nothing either way, and is an error.
    """
    if not checks:
        return "error", "The claim yielded no check."
    if all(c.passed for c in checks):
        return ("refuted" if any(c.printed for c in checks) else "holds"), None
    off = [c for c in checks if not c.passed]
    if blunt := [c for c in off if c.control is not None]:
        return "error", f"The control {blunt[0].name!r} was not violated ({blunt[0].outcome}): {blunt[0].sentence}"
    if vague := [c for c in off if c.outcome not in ("passed", "violated")]:
        return "error", f"The check {vague[0].name!r} is {vague[0].outcome}: {vague[0].sentence}"
    return "fails", None


def to_json(evidence: Evidence) -> str:
    """One line of strict JSON; numbers that are not finite become null."""
    return json.dumps({"schema": SCHEMA} | _plain(asdict(evidence)), allow_nan=False, separators=(",", ":"))


def from_json(text: str) -> Evidence:
    """The evidence that `to_json` wrote."""
    raw = json.loads(text)
    schema = raw.pop("schema", None)
    if schema not in (1, SCHEMA):  # the first knew neither devices nor calls
        raise ValueError(f"Evidence of schema {schema} cannot be read; this version writes schema {SCHEMA}.")
    raw["checks"] = tuple(Check(**c) for c in raw["checks"])
    raw["figures"] = tuple(Figure(**f) for f in raw["figures"])
    raw["rows"] = tuple(raw["rows"])
    if raw.get("calls") is not None:
        raw["calls"] = tuple(raw["calls"])
    return Evidence(**raw)


def summary(evidence: Evidence) -> dict:
    """The object that `corollary verify --json` prints for one run."""
    return _plain(
        {
            "claim": evidence.claim,
            "seed": evidence.seed,
            "verdict": evidence.verdict,
            "expected": evidence.expected,
            "seconds": round(evidence.seconds, 3),
            "checks": [
                {
                    "name": c.name,
                    "kind": c.kind,
                    "passed": c.passed,
                    "margin": c.margin,
                    "control": c.control is not None,
                    "printed": c.printed,
                    "outcome": c.outcome,
                    "tightness": c.tightness,
                }
                for c in evidence.checks
            ],
            "error": evidence.error,
        }
    )


@cache
def versions() -> dict[str, str]:
    """The versions that a result depends on."""
    packages = ("jax", "jaxlib", "equinox", "optax", "numpy", "scipy")
    return {"python": platform.python_version(), "corollary": __version__} | {p: version(p) for p in packages}


def _plain(value):
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if hasattr(value, "item"):  # a NumPy or JAX scalar
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
