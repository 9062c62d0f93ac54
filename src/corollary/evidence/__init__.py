"""Claims, checks and what a run of them leaves behind. Knows no theory."""

from corollary.evidence._check import FALSE_ALARM, OUTCOMES, Check, Figure, control, printed
from corollary.evidence._claim import SCALES, Claim, claim
from corollary.evidence._errors import ParameterError, StoreError, UnknownClaim, UserError
from corollary.evidence._evidence import SCHEMA, Evidence, from_json, summary, to_json, verdict
from corollary.evidence._exact import at_least, at_most, equal, monotone
from corollary.evidence._figures import draw, picture, save, svg
from corollary.evidence._index import claims, select
from corollary.evidence._parameters import Count, Parameter, Positive, Probability, Range, Real, Size
from corollary.evidence._run import run
from corollary.evidence._statistical import estimate, frequency_at_most, rate, same_law

__all__ = [
    "FALSE_ALARM",
    "OUTCOMES",
    "SCALES",
    "SCHEMA",
    "Check",
    "Claim",
    "Count",
    "Evidence",
    "Figure",
    "Parameter",
    "ParameterError",
    "Positive",
    "Probability",
    "Range",
    "Real",
    "Size",
    "StoreError",
    "UnknownClaim",
    "UserError",
    "at_least",
    "at_most",
    "claim",
    "claims",
    "control",
    "draw",
    "equal",
    "estimate",
    "frequency_at_most",
    "from_json",
    "monotone",
    "picture",
    "printed",
    "rate",
    "run",
    "same_law",
    "save",
    "select",
    "summary",
    "svg",
    "to_json",
    "verdict",
]
