"""Errors that are sentences for users; the command line prints them without a traceback."""


class UserError(Exception):
    """Something the user asked for cannot be done; the message says what and why."""

    status = 2  # with which the command line ends


class Stopped(UserError):
    """Something was begun and did not come to its end."""

    status = 1


class ParameterError(UserError):
    """A claim's parameter is unknown or out of its range."""


class UnknownClaim(UserError):
    """No claim has that id."""


class StoreError(UserError):
    """The evidence file cannot be used."""


def described(problem: BaseException) -> str:
    """The kind of an exception and what it says, also if it cannot say it."""
    try:
        said = str(problem)
    except BaseException:  # of its own making: it must not take the run with it
        said = "(it cannot say what)"
    return f"{type(problem).__name__}: {said}"
