"""Errors that are sentences for users; the command line prints them without a traceback."""


class UserError(Exception):
    """Something the user asked for cannot be done; the message says what and why."""


class ParameterError(UserError):
    """A claim's parameter is unknown or out of its range."""


class UnknownClaim(UserError):
    """No claim has that id."""


class StoreError(UserError):
    """The evidence file cannot be used."""
