"""Forty thousand lines of Shakespeare: the usual small text for character models."""

from corollary.data._files import File, load

FILE = File(
    "text",
    "tinyshakespeare.txt",
    "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
    1_115_394,
    ("https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",),
)


def shakespeare() -> str:
    """The whole text, 1,115,394 characters of 65 kinds.

    Read from the directory that `COROLLARY_DATA` names (or its folder `text`), else from `data/` in a checkout of
    corollary, else from the user's cache, else downloaded into that cache. Raises `DataError` if no intact copy is to
    be had.
    """
    return load(FILE).decode("ascii")
