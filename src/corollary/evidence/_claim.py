"""A claim: one statement of the theory as a runnable measurement."""

import difflib
import fnmatch
import importlib
import inspect
import os
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from corollary.evidence._errors import UnknownClaim, UserError
from corollary.evidence._parameters import Parameter, bind, parameters_of

PACKAGE = "corollary.claims"
SCALES = ("quick", "full", "large")

_REGISTRY: dict[str, "Claim"] = {}


@dataclass(frozen=True)
class Claim:
    """A statement with its experiment. `expected` is "refuted" for a statement that is wrong as printed."""

    id: str
    function: Callable
    title: str
    statement: str
    rows: tuple[str, ...]
    parameters: dict[str, Parameter]
    erratum: str | None = None
    no_control: str | None = None
    presets: dict[str, dict] = field(default_factory=dict)

    @property
    def expected(self) -> str:
        return "holds" if self.erratum is None else "refuted"

    @property
    def module(self) -> str:
        return self.function.__module__

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
    """

    def make(function: Callable) -> Claim:
        if not inspect.isgeneratorfunction(function):
            raise TypeError(f"The claim {function.__name__} must be a generator: it yields its checks.")
        title, _, statement = inspect.cleandoc(function.__doc__ or "").partition("\n")
        if not title or not statement.strip():
            raise TypeError(f"The claim {function.__name__} needs a docstring: a title line, then the statement.")
        if "$" in title:  # terminals and pictures show the title as it is
            raise TypeError(f"The title of the claim {function.__name__} must be plain text, without LaTeX.")
        module = function.__module__.removeprefix(PACKAGE + ".")
        parameters = parameters_of(function)
        presets = {
            scale: {name: bind(parameters, {}, preset)[name] for name in preset}
            for scale, preset in {"full": full or {}, "large": large or full or {}}.items()
        }
        made = Claim(
            f"{module}.{function.__name__}",
            function,
            title.strip(),
            statement.strip(),
            tuple(rows),
            parameters,
            erratum,
            no_control,
            presets,
        )
        if made.id in _REGISTRY:
            raise ValueError(f"There are two claims with the id {made.id}.")
        _REGISTRY[made.id] = made
        return made

    return make


def claims() -> dict[str, Claim]:
    """All claims by id: those of the package, and those of the modules that `COROLLARY_CLAIMS` names."""
    package = importlib.import_module(PACKAGE)
    for found in pkgutil.walk_packages(package.__path__, PACKAGE + "."):
        importlib.import_module(found.name)
    for name in filter(None, os.environ.get("COROLLARY_CLAIMS", "").split(",")):
        try:
            importlib.import_module(name.strip())
        except ImportError as error:
            raise UserError(f"COROLLARY_CLAIMS names {name}, which cannot be imported: {error}.") from None
    return dict(sorted(_REGISTRY.items()))


def select(patterns: Iterable[str]) -> list[Claim]:
    """The claims whose id matches any of the globs, each once; a pattern that matches none is an error."""
    known, chosen = claims(), {}
    for pattern in patterns:
        hits = fnmatch.filter(known, pattern)
        if not hits:
            raise UnknownClaim(f"No claim matches {pattern!r}.{_nearest(pattern, known)}")
        chosen |= {hit: known[hit] for hit in hits}
    return list(chosen.values())


def _nearest(pattern: str, known: Iterable[str]) -> str:
    tails: dict[str, list[str]] = {}
    for each in known:  # a name without its path is the likeliest thing to be typed
        tails.setdefault(each.rsplit(".", 1)[-1], []).append(each)
    near = difflib.get_close_matches(pattern, known, n=3, cutoff=0.5)
    for tail in difflib.get_close_matches(pattern.rsplit(".", 1)[-1], tails, n=3, cutoff=0.6):
        near += [each for each in tails[tail] if each not in near]
    return "".join(f"\n  {each}" for each in [" The nearest:", *near[:5]]) if near else " `corollary list` shows them."
