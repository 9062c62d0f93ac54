"""A claim: one statement of the theory as a runnable measurement."""

import importlib
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from corollary.evidence._errors import UserError
from corollary.evidence._parameters import Parameter, bind, parameters_of

PACKAGE = "corollary.claims"
SCALES = ("quick", "full", "large")

_REGISTRY: dict[str, "Claim"] = {}


@dataclass(frozen=True)
class Claim:
    """A statement with its experiment. `expected` is "refuted" for a statement that is wrong as printed."""

    id: str
    module: str
    title: str
    statement: str
    rows: tuple[str, ...]
    parameters: dict[str, Parameter]
    erratum: str | None = None
    no_control: str | None = None
    presets: dict[str, dict] = field(default_factory=dict)
    experiment: Callable | None = field(default=None, compare=False, repr=False)  # None until its module is imported

    @property
    def name(self) -> str:
        return self.id.rpartition(".")[2]

    @property
    def expected(self) -> str:
        return "holds" if self.erratum is None else "refuted"

    @property
    def function(self) -> Callable:
        """The generator function `f(key, **parameters)`; imports the claim's module, and with it JAX."""
        if self.experiment is not None:
            return self.experiment
        importlib.import_module(self.module)
        return _REGISTRY[self.id].experiment

    def values(self, scale: str = "quick", overrides: dict | None = None) -> dict:
        """The parameters of a run at this scale; `overrides` win, and are held to their ranges."""
        if scale not in SCALES:
            raise UserError(f"There is no scale {scale}; take one of {', '.join(SCALES)}.")
        return bind(self.parameters, self.presets.get(scale, {}), overrides or {})


def claim(
    *,
    rows: Iterable[str],
    erratum: str | None = None,
    no_control: str | None = None,
    full: dict | None = None,
    large: dict | None = None,
) -> Callable[[Callable], Claim]:
    """Make a claim of a generator function `f(key, *, ...)` that yields checks and figures.

    The docstring is the theorem: its first line the title, the rest the statement with all premises. `erratum` says
    in one sentence what is wrong with the printed statement, which the run must then refute. `no_control` says in
    one line why a theorem's claim has no control. `full` and `large` are the parameters of the larger scales.

    >>> @claim(rows=())
    ... def young(key):
    ...     '''A product is at most half the sum of the squares.
    ...
    ...     For all real a and b, ab is at most (a^2 + b^2) / 2.'''
    ...     a, b = jax.random.normal(key, (2, 100))
    ...     yield at_most("products", (a * b - (a**2 + b**2) / 2).max(), bound=0.0)
    >>> run(young).verdict
    'holds'
    """

    def make(function: Callable) -> Claim:
        name = function.__name__
        if not inspect.isgeneratorfunction(function):
            raise TypeError(f"The claim {name} must be a generator: it yields its checks.")
        title, _, statement = inspect.cleandoc(function.__doc__ or "").partition("\n")
        if not title:
            raise TypeError(f"The claim {name} needs a docstring: a title line, then the statement.")
        if not statement.strip():
            raise TypeError(f"The docstring of the claim {name} has a title only; the statement follows below it.")
        if "$" in title:  # terminals and pictures show the title as it is
            raise TypeError(f"The title of the claim {name} must be plain text, without LaTeX.")
        parameters = parameters_of(function)
        made = Claim(
            id_of(function.__module__, name),
            function.__module__,
            title.strip(),
            statement.strip(),
            tuple(rows),
            parameters,
            erratum,
            no_control,
            presets_of(parameters, full, large),
            function,
        )
        if made.id in _REGISTRY:
            raise ValueError(f"There are two claims with the id {made.id}.")
        _REGISTRY[made.id] = made
        return made

    return make


def id_of(module: str, name: str) -> str:
    """The id of a claim: the path of its module below the package of claims, and its name."""
    return f"{module.removeprefix(PACKAGE + '.')}.{name}"


def presets_of(parameters: dict[str, Parameter], full: dict | None, large: dict | None) -> dict[str, dict]:
    """The presets of the larger scales, held to the ranges of the parameters."""
    return {
        scale: {name: bind(parameters, {}, preset)[name] for name in preset}
        for scale, preset in {"full": full or {}, "large": large or full or {}}.items()
    }
