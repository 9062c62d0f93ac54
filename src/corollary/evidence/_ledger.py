"""The ledger: what every claim came to on ten seeds, one small text file per room, kept with the sources.

A line holds for the code version it names. It says nothing of times, and its numbers are rounded, so that writing it
again after an edit changes the lines of the claims that the edit concerns. A conflict of two branches is resolved by
writing it again; lines that contradict each other count for nothing until then.
"""

import random
from collections.abc import Iterable
from dataclasses import astuple, dataclass, field
from pathlib import Path

import corollary
from corollary.evidence._claim import PACKAGE, Claim
from corollary.evidence._code import code_version, sources
from corollary.evidence._errors import UserError
from corollary.evidence._evidence import Evidence
from corollary.evidence._staleness._closure import BOUNDARY

SEEDS = range(10)
LETTERS = {"holds": "h", "refuted": "r", "fails": "f", "error": "e"}
HEADER = "# claim  code  verdicts on seeds 0 to 9  least margin  greatest tightness  jax  device"
FRESH_SEEDS = 1000  # seeds above this are in no ledger


@dataclass(frozen=True)
class Line:
    """What one claim came to: a letter per seed, the smallest margin and the greatest tightness of all its checks."""

    claim: str
    code: str
    verdicts: str
    margin: str
    tightness: str
    jax: str
    device: str

    def as_expected(self, claim: Claim) -> bool:
        return self.verdicts == LETTERS[claim.expected] * len(SEEDS)


@dataclass
class Entry:
    """A line in the making: what is kept of the evidence of one claim as it comes."""

    claim: Claim
    verdicts: dict[int, str] = field(default_factory=dict)
    margins: list[float] = field(default_factory=list)
    tightness: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    measured: set[tuple[str, str, str]] = field(default_factory=set)

    def add(self, evidence: Evidence) -> None:
        self.verdicts[evidence.seed] = LETTERS[evidence.verdict]
        self.margins += [c.margin for c in evidence.checks if c.margin is not None]
        self.tightness += [c.tightness for c in evidence.checks if c.tightness is not None and not c.turned]
        self.measured.add((evidence.code, evidence.jax, evidence.device))
        if evidence.calls is not None:
            self.problems += [
                f"{self.claim.id} calls {unit.replace(':', '.')}, which lies outside its closure: its code version"
                " would not notice an edit there."
                for unit in outside(self.claim, evidence.calls)
            ]

    def line(self) -> Line | None:
        """The line, once all seeds are in and nothing is wrong with it."""
        if len(self.measured) > 1:
            self.problems.append(f"The sources of {self.claim.id} changed while it was measured.")
        if self.problems or set(self.verdicts) != set(SEEDS):
            return None
        ((code, jax, device),) = self.measured
        verdicts = "".join(self.verdicts[seed] for seed in SEEDS)
        numbers = min(self.margins, default=None), max(self.tightness, default=None)
        return Line(self.claim.id, code, verdicts, *map(_short, numbers), jax, device)


def outside(claim: Claim, calls: Iterable[str]) -> list[str]:
    """The definitions among `calls` that the closure of the claim does not have: there should be none."""
    known = sources(claim.module.partition(".")[0])
    closure = known.closures.closure(known.roots_of(claim.module, claim.name))
    found = {tuple(unit.split(":")) for unit in calls} - closure
    return sorted(":".join(unit) for unit in found if unit[0] not in BOUNDARY)


def default_directory() -> Path:
    """`ledger/` in the checkout that we run from, or in the working directory."""
    checkout = Path(corollary.__file__).resolve().parents[2]
    return (checkout if (checkout / "pyproject.toml").is_file() else Path()) / "ledger"


def read(directory: Path) -> dict[str, Line]:
    """The lines by claim. What is no line is left out, and so are two that contradict each other."""
    found: dict[str, Line | None] = {}
    for path in sorted(directory.glob("*.txt")):
        for text in path.read_text(encoding="utf-8").splitlines():
            cells = text.split()
            if len(cells) == 7 and not text.startswith("#"):
                line = Line(*cells)
                found[line.claim] = line if found.get(line.claim, line) == line else None
    return {claim: line for claim, line in found.items() if line is not None}


def write(directory: Path, lines: Iterable[Line]) -> None:
    """Write the files of all rooms; a room without lines has none."""
    rooms: dict[str, list[Line]] = {}
    for line in sorted(lines, key=lambda line: line.claim):
        rooms.setdefault(line.claim.partition(".")[0], []).append(line)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for path in directory.glob("*.txt"):
            if path.stem not in rooms:
                path.unlink()
        for room, those in rooms.items():
            text = "\n".join([HEADER, *("  ".join(astuple(line)) for line in those)]) + "\n"
            (directory / f"{room}.txt").write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"The ledger in {directory} cannot be written: {error.strerror}.") from None


def recorded(claims: Iterable[Claim]) -> list[Claim]:
    """The claims that the ledger is about: those of the package."""
    return [c for c in claims if c.module.startswith(PACKAGE + ".")]


def stale(claims: Iterable[Claim], lines: dict[str, Line]) -> dict[str, str]:
    """The claims that the ledger does not vouch for, each with the reason."""
    reasons = {}
    for claim in recorded(claims):
        line = lines.get(claim.id)
        if line is None:
            reasons[claim.id] = "not in the ledger"
        elif line.code != code_version(claim.module, claim.name):
            reasons[claim.id] = "its code has changed"
        elif not line.as_expected(claim):
            reasons[claim.id] = f"came to {line.verdicts} where {LETTERS[claim.expected] * len(SEEDS)} is expected"
    return reasons


def drawn(ids: Iterable[str], count: int, digest: str) -> list[tuple[str, int]]:
    """`count` of the claims, each with a seed that no ledger has; the same ones for the same sources."""
    ids = sorted(ids)
    lots = random.Random(digest)
    chosen = sorted(lots.sample(ids, min(count, len(ids))))
    return [(id, FRESH_SEEDS + 1 + lots.randrange(2**20)) for id in chosen]


def _short(number: float | None) -> str:
    return "-" if number is None else f"{number:.2g}"
