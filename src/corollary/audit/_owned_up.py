"""An answer says what is marked worst: one that passes over it would contradict the mark beside it."""

import re
from collections.abc import Sequence

from corollary.audit._answer import because
from corollary.audit.finding import MARKS, Cause, Finding

#: the word, what kind of it, and the reason
PARTS = re.compile(r"(Yes|No|Partly|Cannot tell)(?:, ([^:]*))?: (.*)", re.DOTALL)


def owned_up(answer: str, causes: Sequence[Cause]) -> str:
    """The answer of a section with these causes; with what is marked worst if it says nothing of that.

    A problem comes first, and then it is no plain yes; so does all that is known where the answer cannot tell. What is
    to be looked at follows.
    """
    worst = _worst(causes)
    if not worst or any(_tail(f.sentence) in answer for f in worst):
        return answer
    found, parts = worst[0], PARTS.fullmatch(answer)
    if parts is None:
        return f"{answer} But look at this: {found.sentence}"
    word, kind, reason = parts.groups()
    if found.mark == "look" and word != "Cannot tell":
        return f"{answer} But look at this: {found.sentence}"
    rest = f"{kind[0].upper()}{kind[1:]}: {reason}" if kind else f"{reason[0].upper()}{reason[1:]}"
    return because("Partly" if word == "Yes" else word, found.sentence, rest)


def _worst(causes: Sequence[Cause]) -> list[Finding]:
    """The findings of the worst mark, causes before what follows from them."""
    found = [c.finding for c in causes] + [f for c in causes for f in c.follows]
    mark = max((f.mark for f in found), key=MARKS.index, default=None)
    return [f for f in found if f.mark == mark]


def _tail(sentence: str) -> str:
    """A sentence without its first letter, which is small after a colon."""
    return sentence[1:]
