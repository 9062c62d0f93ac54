"""Text of others: on a terminal of ours, and in our sentences."""

import unicodedata

#: control characters, marks that reorder or hide what stands around them, and halves of characters
_HIDDEN = ("Cc", "Cf", "Cs")


def visible(text: str) -> str:
    r"""The text with what would steer a terminal written out: `\x1b` instead of an escape. Line ends stay."""
    return "".join(
        c.encode("unicode_escape").decode() if c != "\n" and unicodedata.category(c) in _HIDDEN else c for c in text
    )


def first_line(error: Exception) -> str:
    """The beginning of another library's message: the rest is advice to its own developers."""
    text = next((line.strip().rstrip(".") for line in str(error).splitlines() if line.strip()), "")
    text = text if len(text) <= 200 else text[:197] + "..."
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
