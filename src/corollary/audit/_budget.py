"""What an audit consists of, and how much may be spent on it."""

from dataclasses import dataclass
from math import inf

#: The sections in order, modules of `audit/sections`, whose docstring says what they have.
SECTIONS = ("trainability", "regime", "minimum", "noise", "generalisation", "robustness", "attribution")
#: What is asked beside of networks that give a class to each token of a text.
OF_TEXT = ("reading",)


@dataclass(frozen=True)
class Budget:
    """How much may be spent.

    Examples for passes over the data, examples for kernels, products of one Lanczos run, the floating-point operations
    that each of these may take, the numbers that may be held at once, and the steps that the program of one example may
    have for all of its derivatives to be compiled. `_plan` makes of them what a network gets.
    `seconds` is the limit of a whole audit from the command line, unless it is given another.
    """

    name: str
    examples: int
    kernel: int
    products: int
    work: float
    memory: int = 2**29
    steps: float = 3000
    seconds: float = 3600.0


BUDGETS = {
    "quick": Budget("quick", examples=2048, kernel=256, products=120, work=1.5e12),
    "full": Budget(
        "full", examples=16384, kernel=1024, products=1000, work=1e15, memory=2**31, steps=inf, seconds=86400.0
    ),
}
