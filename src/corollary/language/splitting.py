"""The first two steps of tokenisation: a text made uniform, and cut into words."""

import re
import unicodedata
from collections.abc import Callable

from corollary._validate import one_of
from corollary.catalog import implements

FORMS = ("NFC", "NFD", "NFKC", "NFKD")

# letters, digits or signs, each run with the one space before it; English endings; what space is left
_WORDS = re.compile(r"'(?:[stmd]|re|ve|ll)| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")
_BERT = re.compile(r"\w+|[^\w\s]")


@implements("B10.56")
def normaliser(
    form: str | None = None, *, lowercase: bool = False, accents: bool = True, squeeze: bool = False
) -> Callable[[str], str]:
    """A function that makes texts uniform: the first step of the pipeline.

    `form` is a Unicode normal form; without `accents` they are taken off their letters; `squeeze` strips the ends
    and makes every run of space one space. Without any of these the text stays as it is.
    """
    if form is not None:
        one_of("form", form, FORMS)

    def normalise(text: str) -> str:
        if form is not None:
            text = unicodedata.normalize(form, text)
        if not accents:
            text = "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")
        if lowercase:
            text = text.lower()
        return " ".join(text.split()) if squeeze else text

    return normalise


def unchanged(text: str) -> str:
    """The text as it is."""
    return text


def words(text: str) -> list[str]:
    """The text cut as GPT-2 does before any byte pairs: words with the space before them. Nothing is lost."""
    return _WORDS.findall(text)


def bert_words(text: str) -> list[str]:
    """The text cut as BERT does: words and single punctuation marks; the space between them is lost."""
    return _BERT.findall(text)


def uncut(text: str) -> list[str]:
    """The text as one word."""
    return [text] if text else []


def characters(text: str) -> list[str]:
    """The text cut into its characters."""
    return list(text)
