"""What a sentence calls a layer."""


def layer_called(name: str) -> str:
    """The name of a layer's weights; in a list of arrays these have numbers for names, which alone say nothing."""
    return name if any(letter.isalpha() for letter in name) else f"layer {name}"
