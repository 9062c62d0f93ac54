"""What a worker is dealt."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Task:
    """One claim to measure at one seed, with all its parameters."""

    claim_id: str
    module: str
    seed: int
    scale: str
    parameters: dict = field(hash=False)
    file: str | None = None  # of a module that was loaded from a path
    trace: bool = False  # whether the evidence must say what was called
