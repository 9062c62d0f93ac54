"""Functions compared by what they do: the same code finds its program again, a changed meaning never does."""

import functools
import os
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from corollary.network._code import Code, by_code, digest

SCALE = 2.0
KEYED = {"a": 1}


def scaled(weight):
    return lambda x: weight * x


def with_global():
    return lambda x: SCALE * KEYED["a"] * x


def helped():
    return lambda x: _help(x)


def _help(x):
    return SCALE * x


@pytest.mark.parametrize(
    "value",
    [
        *(2, 2.0, -0.0, float("nan"), "two", None, (1, (2.0, "a")), [1, [2]], {"a": [1]}, np.arange(3), np.float32(2)),
        *(len, jnp.sin, np.sin, jax.nn.relu, optax),
    ],
)
def test_what_is_enclosed_is_compared_by_what_it_holds(value):
    assert by_code(scaled(value)) == by_code(scaled(value))
    assert hash(by_code(scaled(value))) == hash(by_code(scaled(value)))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (2, 3),
        (2, 2.0),
        (1, True),
        (0.0, -0.0),
        ((1, 2), [1, 2]),
        ([1, [2]], [1, [3]]),
        ({"a": 1}, {"b": 1}),
        (np.arange(3), np.arange(3) + 1),
        (np.arange(3), np.arange(3.0)),
        (np.arange(4), np.arange(4).reshape(2, 2)),
        (jnp.sin, jnp.cos),
        (jnp.ones(2), jnp.ones(2)),  # arrays of JAX are the same where they are one
        (lambda x: x, lambda x: x + 1),
        (scaled(1.0), scaled(2.0)),
    ],
)
def test_other_values_make_another_function(one, other):
    assert by_code(scaled(one)) != by_code(scaled(other))


def test_a_function_of_its_own_code_written_twice():
    same = [lambda x, power=2: x**power for _ in range(2)]
    assert by_code(same[0]) == by_code(same[1])
    assert by_code(lambda x, power=2: x**power) != by_code(lambda x, power=3: x**power)
    named = [lambda x, *, power=p: x**power for p in (2, 2, 3)]
    assert by_code(named[0]) == by_code(named[1]) != by_code(named[2])
    assert by_code(same[0])(3.0) == 9.0
    assert repr(by_code(scaled(2))) == "<scaled.<locals>.<lambda>>"


def test_a_changed_global_is_noticed(monkeypatch):
    for make in (with_global, helped):
        function = make()
        before = by_code(function)
        assert before == by_code(make())
        monkeypatch.setitem(globals(), "SCALE", 3.0)
        assert by_code(function) != before  # the very same function object
        monkeypatch.setitem(globals(), "SCALE", 2.0)
        assert by_code(function) == before
    before = by_code(with_global())
    monkeypatch.setitem(KEYED, "a", 5)
    assert by_code(with_global()) != before
    assert by_code(before) != before  # looked at again


@pytest.mark.parametrize("value", [[1.0], np.ones(1), {0: 1.0}])
def test_what_is_enclosed_may_be_mutated(value):
    function = scaled(value)
    before = by_code(function)
    value[0] = 2.0
    assert by_code(function) != before


def test_an_unknown_object_is_the_same_for_the_same_function_alone():
    class Thing:
        pass

    thing = Thing()
    function = scaled(thing)
    assert by_code(function) == by_code(function)
    assert by_code(function) != by_code(scaled(thing))


def test_a_value_that_holds_itself_and_a_function_that_calls_itself():
    loop = [1]
    loop.append(loop)
    assert by_code(scaled(loop)) == by_code(scaled(loop))

    def countdown():
        def inner(n):
            return 0 if n == 0 else inner(n - 1)

        return inner

    assert by_code(countdown()) == by_code(countdown())


def test_partial_modules_and_other_callables():
    add = lambda x, y, z=0: x + 2 * y + 3 * z  # noqa: E731
    one, two, other = (functools.partial(add, 1, z=z) for z in (5, 5, 6))
    assert by_code(one) == by_code(two) != by_code(other)
    assert by_code(one)(10) == 36
    module = eqx.nn.Linear(2, 2, key=jax.random.key(0))
    assert isinstance(by_code(module), Code)  # arrays have no hash
    assert by_code(module) == by_code(module)
    assert by_code(module) != by_code(eqx.nn.Linear(2, 2, key=jax.random.key(0)))
    assert by_code(jnp.sin) is jnp.sin
    assert by_code(module) != 3


@pytest.mark.parametrize(
    ("make", "others"),
    [
        (lambda rate: optax.adam(rate), lambda: optax.sgd(0.1)),
        (
            lambda rate: optax.chain(optax.clip(1.0), optax.sgd(rate)),
            lambda: optax.chain(optax.clip(2.0), optax.sgd(0.1)),
        ),
        (lambda rate: optax.adamw(optax.cosine_decay_schedule(rate, 9)), lambda: optax.adamw(0.1)),
    ],
)
def test_methods_of_optax_written_twice(make, others):
    same = [by_code(make(0.1).update) for _ in range(2)]
    assert same[0] == same[1]
    assert same[0] != by_code(make(0.2).update)
    assert same[0] != by_code(others().update)
    assert digest(same[0]) == digest(same[1]) != digest(make(0.2).update)


PROGRAM = """
import jax.numpy as jnp, numpy as np, optax
from corollary.network._code import digest
table, words = np.arange(3.0), {"b": [1, 2], "a": "c"}
print(digest(lambda x: (x in {"p", "q", "r"}) * table * len(words) + jnp.sin(2.0 * x)))
print(digest(optax.adamw(optax.warmup_cosine_decay_schedule(0.0, 0.1, 2, 9)).update), digest(jnp.sin))
"""


def test_a_digest_is_the_same_in_every_process():
    found = set()
    for seed in ("1", "2"):
        env = os.environ | {"PYTHONHASHSEED": seed}
        found.add(subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=True, env=env).stdout)
    assert len(found) == 1
    assert len(set(found.pop().split())) == 3  # three functions, three digests


def test_a_digest_sees_what_can_be_seen():
    assert digest(scaled(np.ones(2))) != digest(scaled(np.zeros(2)))
    assert digest(scaled(jnp.ones(2))) == digest(scaled(jnp.ones(2))) != digest(scaled(jnp.zeros(2)))
    assert digest(scaled(jax.random.key(0))) != digest(scaled(jax.random.key(1)))
    linear = [eqx.nn.Linear(2, 1, key=jax.random.key(i)) for i in (0, 0, 1)]
    assert digest(linear[0]) == digest(linear[1]) != digest(linear[2])
    assert digest(scaled(2)) == digest(scaled(2.0))  # schedules turn the one into the other
    assert digest(scaled(2)) != digest(scaled(10**400))
