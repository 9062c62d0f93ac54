"""Text as bytes and back, for every Python string."""

import numpy as np

#: The 256 bytes in the order in which GPT-2 numbers them: those with a visible Latin-1 character, then the others.
VISIBLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
ORDER = bytes(VISIBLE + sorted(set(range(256)) - set(VISIBLE)))
#: How GPT-2 shows a byte: itself where it can be seen, else a character from U+0100 on (a space is Ġ).
SHOWN = {b: chr(b) if i < len(VISIBLE) else chr(256 + i - len(VISIBLE)) for i, b in enumerate(ORDER)}


def utf8(text: str) -> bytes:
    """The bytes of any string; lone surrogates, which UTF-8 does not have, by the same pattern of bits."""
    return text.encode("utf-8", "surrogatepass")


def from_utf8(data: bytes) -> str:
    """The inverse of `utf8`; of bytes that no string has, those that fit nowhere become U+FFFD."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace")


def shown(token: bytes) -> str:
    """A token as GPT-2 shows it."""
    return "".join(SHOWN[b] for b in token)


def check_text(name: str, text) -> str:
    """`text`, if it is a string."""
    if not isinstance(text, str):
        raise TypeError(f"{name} must be a string, got {type(text).__name__}.")
    return text


def check_ids(ids, size: int) -> list[int]:
    """`ids` as a list of whole numbers from 0 to `size - 1`."""
    seen = np.asarray(ids)
    if seen.size == 0:
        return []
    if seen.ndim != 1 or seen.dtype.kind not in "iu":
        raise TypeError(f"ids must be a list of integers, got shape {seen.shape} of dtype {seen.dtype}.")
    if (bad := (seen < 0) | (seen >= size)).any():
        at = int(np.argmax(bad))
        raise ValueError(f"ids must be from 0 to {size - 1}, got {seen[at]} at index {at}.")
    return seen.tolist()


def check_words(words) -> dict[str, int]:
    """`words` as a table of words and how often each occurs."""
    if not hasattr(words, "items"):
        raise TypeError(f"words must be a mapping of words to counts, got {type(words).__name__}.")
    for word, count in words.items():
        if not isinstance(word, str) or not isinstance(count, int | np.integer) or count < 1:
            raise ValueError(f"words must map strings to counts of 1 or more, got {word!r}: {count!r}.")
    table = {word: int(count) for word, count in words.items() if word}
    if not table:
        raise ValueError("words must not be empty: there is nothing to learn from.")
    return table
