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
