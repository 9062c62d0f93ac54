"""The examples in the docstrings of public functions print what they say."""

import doctest
import functools
import importlib
import inspect
import sys
from pathlib import Path
from unittest.mock import patch

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from corollary.evidence._claim import _REGISTRY

SOURCE = Path(__file__).resolve().parent.parent / "src" / "corollary"
PACKAGES = sorted(path.parent for path in SOURCE.rglob("__init__.pyi") if "claims" not in path.parts)


@functools.cache
def setting() -> dict:
    """What every example may start from: four examples of three features, and a small network."""
    key = jax.random.key(0)
    x = jnp.sin(jnp.arange(12.0)).reshape(4, 3)
    y = jnp.cos(jnp.arange(4.0)).reshape(4, 1)
    network = eqx.nn.MLP(3, 1, 4, 1, key=key)
    return dict(jax=jax, jnp=jnp, np=np, optax=optax, eqx=eqx, key=key, x=x, y=y, data=(x, y), network=network)


def names_of(package: str, member) -> dict:
    """What an example sees: its own file, the public names of its package, and the setting."""
    module = importlib.import_module(package)
    public = {name: getattr(module, name) for name in module.__all__}
    return vars(sys.modules[member.__module__]) | public | setting()


def documented(name: str, value):
    """A public value and the methods of a class that have docstrings of their own."""
    yield name, value
    if inspect.isclass(value):
        for attribute, raw in vars(value).items():
            function = raw.__func__ if isinstance(raw, classmethod | staticmethod) else raw
            if inspect.isfunction(function) and not attribute.startswith("_"):
                yield f"{name}.{attribute}", function


def examples() -> dict:
    found, seen = {}, set()
    for package in PACKAGES:
        module = importlib.import_module(".".join(package.relative_to(SOURCE.parent).parts))
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.ismodule(value) or not callable(value) or id(value) in seen:
                continue
            seen.add(id(value))
            for full, member in documented(f"{module.__name__}.{name}", value):
                if ">>>" in (getattr(member, "__doc__", None) or ""):
                    found[full.removeprefix("corollary.")] = module.__name__, member
    return found


EXAMPLES = examples()


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_prints_what_it_says(name):
    package, member = EXAMPLES[name]
    test = doctest.DocTestParser().get_doctest(inspect.getdoc(member), names_of(package, member), name, None, None)
    assert test.examples
    said = []
    # a claim that an example makes is forgotten again
    with np.printoptions(precision=3, suppress=True), patch.dict(_REGISTRY):
        doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=said.append)
    assert not said, "".join(said)


def test_those_that_are_reached_for_first_have_one():
    assert len(EXAMPLES) >= 50
