"""What is wrong with a network or its data, as one sentence for the person who gave them."""

from contextlib import contextmanager

from corollary.evidence._errors import UserError


class SubjectError(UserError, ValueError):
    """The network or its data cannot be audited; the message is one sentence that says what and why."""


@contextmanager
def sentences():
    """Give the sentences of `corollary._validate` as those of the audit, so that the command line prints them."""
    try:
        yield
    except SubjectError:
        raise
    except (TypeError, ValueError) as error:
        raise SubjectError(str(error)) from None


def first_line(error: Exception) -> str:
    """The beginning of another library's message: the rest is advice to its own developers."""
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    text = text if len(text) <= 200 else text[:197] + "..."
    return f"{type(error).__name__}: {text.rstrip('.')}" if text else type(error).__name__
