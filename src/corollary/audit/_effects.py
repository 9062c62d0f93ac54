"""How the effect of an action is printed: what is, what is expected, and errors, which are shares, in per cent."""

from collections.abc import Sequence

from corollary.audit._numbers import short

#: Quantities of effects that are shares of examples. Errors are those of classes: other effects are told as losses.
SHARES = ("training error", "test error", "accuracy under attack")
#: Quantities that are in per cent already.
PER_CENT = ("outputs that move with later tokens", "order of the tokens", "targets that are the next token")


def amount(quantity: str, value: float) -> str:
    """A number of that quantity."""
    if quantity in SHARES:
        return f"{short(100 * value)} %"
    return f"{short(value)} %" if quantity in PER_CENT else short(value)


def effect_line(quantity: str, now: float, then: float, interval: Sequence[float]) -> str:
    """The quantity, now and then; where nothing but no harm is promised, that more is not known."""
    if now == then:
        return f"{quantity} {amount(quantity, now)} → not known"
    low, high = (amount(quantity, end) for end in interval)
    return f"{quantity} {amount(quantity, now)} → {amount(quantity, then)} [{low}, {high}]"
