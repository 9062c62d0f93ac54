"""What the rooms offer is behind one boundary: failures become sentences, and nothing else changes."""

import inspect
import pickle
import subprocess
import sys
from collections.abc import Sequence  # noqa: F401  read from the annotations, by name
from fractions import Fraction  # noqa: F401
from typing import Any  # noqa: F401

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary import kernels, landscape, linear, nets
from corollary._boundary import guarded
from corollary.nets import steps


@pytest.mark.parametrize(
    ("call", "kind", "sentence"),
    [
        (lambda: nets.smooth_step(np.ones(3), np.ones(4)), ValueError, "shapes: x (3,), eps (4,)."),
        (lambda: nets.opposing_sum(np.ones(3), 1.0, np.ones(4)), ValueError, "shapes: x (3,), y (), eps (4,)."),
        (lambda: nets.smooth_step(2**70, 0.1), ValueError, "x must fit into 64 bits, got a whole number of 71 bits."),
        (lambda: nets.smooth_step(x=1, eps=2**70), ValueError, "eps must fit into 64 bits"),
        (lambda: nets.smooth_step(2**40, 0.1), ValueError, "x must fit into 32 bits, got 1099511627776."),
        (lambda: landscape.stuck_probability_bound(3, -(2**70), 1), ValueError, "omega must fit into 64 bits"),
        (lambda: landscape.rank_one_plane(np.ones(3), np.ones(4)), ValueError, "shapes: a (3,), b (4,)."),
        (lambda: nets.smooth_step(1.0), TypeError, "missing 1 required positional argument: 'eps'"),
    ],
)
def test_a_failure_further_in_becomes_a_sentence(call, kind, sentence):
    with jax.enable_x64(False), pytest.raises(kind) as caught:
        call()
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def takes(x=((1.0,),), y=None, k=1, f=None, key=None, tree=1.0, of=(1,), anything=None):
    """Fails whatever it is given."""
    return np.zeros(3) @ np.zeros(4)


takes.__annotations__ = {
    "x": 'Float[ArrayLike, "n d"]',
    "y": 'Int[ArrayLike, "n"] | None',
    "k": "int",
    "f": "Callable | None",
    "key": "PRNGKeyArray | None",
    "tree": "PyTree",
    "of": "Fraction | Sequence[int]",
    "anything": "Any",
}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"x": "word"}, "x must be an array of numbers, got str."),
        ({"x": None}, "x must be an array of numbers, got NoneType."),
        ({"x": np.ones(3)}, "x must have shape (n, d), got (3,)."),
        ({"x": np.ones((2, 1)), "y": np.ones(3, int)}, "takes cannot take these shapes: x (2, 1), y (3,)."),
        ({"x": np.ones((0, 1))}, "x must not be empty, got shape (0, 1)."),
        ({"x": np.ones((2, 1)) * 1j}, "x must be real, got dtype complex"),
        ({"x": [[np.nan]]}, "x must be finite, got nan at index (0, 0)."),
        ({"x": np.ones((1, 1), np.float16)}, "takes does not work in float16: x must be float32 or float64."),
        ({"y": np.ones(3)}, "y must hold integers, got dtype float"),
        ({"k": 1.5}, "k must be an integer, got float."),
        ({"f": 3}, "f must be a function, got int."),
        ({"key": 3}, "key must be a key such as jax.random.key(0), got int."),
        ({"tree": "word"}, "tree must be a pytree of arrays that are not empty, got str."),
        ({"of": 3}, "of must be of type Fraction, got int."),
        ({"x": np.ones((1, 1)), "anything": "word"}, "takes cannot take these shapes: x (1, 1)."),
    ],
)
def test_the_argument_that_its_annotation_does_not_allow_is_named(arguments, sentence):
    with pytest.raises((TypeError, ValueError)) as caught:
        guarded(takes)(**arguments)
    assert sentence in str(caught.value)
    assert isinstance(caught.value.__cause__, ValueError)  # what NumPy said is not lost


def test_what_a_function_of_the_caller_raises_is_left_alone():
    def broken(_):
        return np.zeros(3) @ np.zeros(4)

    with pytest.raises(ValueError, match="matmul"):
        guarded(lambda f: f(1))(broken)
    with pytest.raises(ValueError, match="matmul"):
        guarded(takes)(f=broken)


def test_what_tracing_cannot_do_is_said_by_jax():
    with pytest.raises(jax.errors.TracerBoolConversionError):
        jax.jit(guarded(lambda x: 1 if x > 0 else 2))(1.0)


def test_sentences_of_the_function_itself_are_left_alone():
    with pytest.raises(ValueError, match="eps must be positive") as caught:
        nets.smooth_step(1.0, -1.0)
    assert caught.value.__cause__ is None


def test_functions_are_what_they_were():
    assert inspect.unwrap(nets.smooth_step) is steps.smooth_step
    assert inspect.signature(nets.smooth_step) == inspect.signature(steps.smooth_step)
    assert nets.smooth_step.__doc__ == steps.smooth_step.__doc__
    assert nets.smooth_step is nets.smooth_step
    assert pickle.loads(pickle.dumps(nets.smooth_step)) is nets.smooth_step
    x = jnp.linspace(-1, 1, 3)
    for transform in (jax.jit, jax.grad, lambda f: jax.vmap(f, (0, None))):
        point = x if transform not in (jax.grad,) else x[0]
        np.testing.assert_array_equal(transform(nets.smooth_step)(point, 0.5), transform(steps.smooth_step)(point, 0.5))


def test_every_function_of_a_room_is_behind_it():
    for room in (kernels, landscape, linear, nets):
        bare = [n for n in room.__all__ if inspect.isfunction(f := getattr(room, n)) and not hasattr(f, "__wrapped__")]
        assert not bare


def test_the_boundary_does_not_wake_jax():
    script = "import sys, corollary.nets, corollary._boundary; assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)
