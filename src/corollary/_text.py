"""Text of others on a terminal of ours."""

import unicodedata

#: control characters, marks that reorder or hide what stands around them, and halves of characters
_HIDDEN = ("Cc", "Cf", "Cs")


def visible(text: str) -> str:
    r"""The text with what would steer a terminal written out: `\x1b` instead of an escape. Line ends stay."""
    return "".join(
        c.encode("unicode_escape").decode() if c != "\n" and unicodedata.category(c) in _HIDDEN else c for c in text
    )
