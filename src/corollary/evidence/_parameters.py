"""Parameters of a claim: a default and a declared range, read off the function's signature."""

import difflib
import inspect
import math
import typing
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from corollary.evidence._errors import ParameterError

RESERVED = ("claim", "seed", "scale", "report")


@dataclass(frozen=True)
class Range:
    """The allowed interval of a number; `open` is any of `"low"`, `"high"`, `"both"`."""

    low: float = -math.inf
    high: float = math.inf
    open: str = ""

    def __contains__(self, value: float) -> bool:
        above = value > self.low if self.open in ("low", "both") else value >= self.low
        below = value < self.high if self.open in ("high", "both") else value <= self.high
        return above and below

    def __str__(self) -> str:
        left = "(" if self.open in ("low", "both") or math.isinf(self.low) else "["
        right = ")" if self.open in ("high", "both") or math.isinf(self.high) else "]"
        return f"{left}{self.low:g}, {self.high:g}{right}"


Size = Annotated[int, Range(1, 1_000_000)]  # of an array
Count = Annotated[int, Range(1, 1_000_000_000)]  # of steps, samples, trials
Positive = Annotated[float, Range(0, open="low")]
Probability = Annotated[float, Range(0, 1, open="both")]
Real = Annotated[float, Range()]


@dataclass(frozen=True)
class Parameter:
    """One keyword of a claim."""

    name: str
    type: type
    default: Any
    range: Range | None = None
    choices: tuple = ()

    def parse(self, text: str) -> Any:
        """The value written as `text`, in range."""
        if self.type is bool and text.lower() in ("true", "false"):
            return text.lower() == "true"
        if self.type in (int, float):
            try:
                return self.check(self.type(text))
            except ValueError:
                pass
        elif self.type is str:
            return self.check(text)
        raise ParameterError(f"{self.name} takes {self.expected}, got {text!r}.")

    def check(self, value: Any) -> Any:
        """`value`, if it is of the type and in the range."""
        if self.type is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        fits = isinstance(value, self.type) and (self.type is bool or not isinstance(value, bool))
        if fits and self.range is not None:
            fits = math.isfinite(value) and value in self.range
        if fits and self.choices:
            fits = value in self.choices
        if not fits:
            raise ParameterError(f"{self.name} takes {self.expected}, got {value!r}.")
        return value

    @property
    def expected(self) -> str:
        """What the parameter takes, in words."""
        if self.choices:
            return "one of " + ", ".join(map(str, self.choices))
        noun = {int: "a whole number", float: "a number", bool: "true or false"}[self.type]
        return noun if self.range is None else f"{noun} in {self.range}"


def parameters_of(function) -> dict[str, Parameter]:
    """The keyword-only parameters of a claim's function, from its annotations."""
    hints = typing.get_type_hints(function, include_extras=True)
    signature = inspect.signature(function)
    found = {}
    for position, (name, argument) in enumerate(signature.parameters.items()):
        if position == 0:
            if name != "key":
                raise TypeError(f"The first argument of the claim {function.__name__} must be `key`, not `{name}`.")
            continue
        if name in RESERVED:
            raise TypeError(f"{function.__name__}: a parameter cannot be called {name}; `run` takes that name itself.")
        if argument.kind is not argument.KEYWORD_ONLY or argument.default is argument.empty:
            raise TypeError(f"{function.__name__}: parameter {name} must be keyword-only and have a default.")
        if name not in hints:
            raise TypeError(f"{function.__name__}: parameter {name} needs an annotation that declares its range.")
        found[name] = parameter(function.__name__, name, hints[name], argument.default)
    return found


def bind(parameters: dict[str, Parameter], preset: dict, overrides: dict) -> dict[str, Any]:
    """The values of a run: defaults, then the preset of the scale, then the overrides (text or values)."""
    for name in overrides:
        if name not in parameters:
            near = difflib.get_close_matches(name, parameters, n=1)
            hint = f" Did you mean {near[0]}?" if near else f" It takes {', '.join(parameters) or 'none'}."
            raise ParameterError(f"There is no parameter {name}.{hint}")
    values = {p.name: p.default for p in parameters.values()} | preset
    for name, value in overrides.items():
        p = parameters[name]
        values[name] = p.parse(value) if isinstance(value, str) else p.check(value)
    return values


def parameter(function: str, name: str, hint, default) -> Parameter:
    """The parameter that an annotation declares."""
    if typing.get_origin(hint) is Literal:
        p = Parameter(name, str, default, choices=typing.get_args(hint))
    elif hint is bool:
        p = Parameter(name, bool, default)
    elif typing.get_origin(hint) is Annotated:
        kind, *extras = typing.get_args(hint)
        bounds = next((e for e in extras if isinstance(e, Range)), None)
        if kind not in (int, float) or bounds is None:
            raise TypeError(f"{function}: {name} must be annotated with a number type and a Range.")
        p = Parameter(name, kind, default, bounds)
    else:
        raise TypeError(f"{function}: {name} must be annotated with a declared range, a Literal or bool.")
    p.check(default)
    return p
