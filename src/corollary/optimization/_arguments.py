"""Arguments that all methods share. Plain numbers stay plain, so that they take the precision of the parameters."""

from corollary._validate import positive, real, within


def learning_rate_of(value):
    """A positive number, traced or not, or an Optax schedule (a function of the step)."""
    return value if callable(value) else _plain(value, positive("learning_rate", real("learning_rate", value, "")))


def decay_of(name: str, value):
    """A factor of forgetting: in [0, 1), where 0 remembers nothing."""
    return _plain(value, within(name, real(name, value, ""), 0.0, 1.0, open="high"))


def offset_of(name: str, value):
    """A number that is zero or more."""
    return _plain(value, within(name, real(name, value, ""), 0.0))


def positive_of(name: str, value):
    """A positive number."""
    return _plain(value, positive(name, real(name, value, "")))


def _plain(value, checked):
    return float(value) if isinstance(value, int | float) else checked
