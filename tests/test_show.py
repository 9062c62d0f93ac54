"""Results print their numbers."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary._show import shown, written
from corollary.landscape import Density, Eigenpairs, GradientNoise, Point, Trace
from corollary.nets import MLP
from corollary.nets.training import Trained
from corollary.optimization import Path


class Pair(NamedTuple):
    first: object
    second: object

    __repr__ = shown


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (jnp.float32(3.14159265), "3.142"),
        (np.float64(1e-9), "1e-09"),
        (jnp.asarray(True), "True"),
        (jnp.arange(3), "[0, 1, 2]"),
        (jnp.arange(1.0, 9.0), "[1, 2, 3, …, 8] (8)"),
        (jnp.asarray([[1.0, -2.0]]), "float32[1, 2] from -2 to 1"),
        (jnp.zeros((0, 3)), "float32[0, 3]"),
        (jnp.asarray([jnp.nan, 1.0]), "[nan, 1]"),
        (jnp.asarray(1 + 2j), "1+2j"),
        (jnp.asarray(1.5, jnp.bfloat16), "1.5"),
        (jax.ShapeDtypeStruct((2,), jnp.float32), "float32[2]"),
        (0.123456, "0.1235"),
        (None, "None"),
        ((1, jnp.float32(2.0)), "(1, 2)"),
        ((1,), "(1,)"),
        (jnp.tanh, "tanh"),
        ({"w": jnp.zeros((2, 3)), "b": jnp.zeros(3)}, "<dict: 9 numbers>"),
        (Pair(jnp.float32(1.0), None), "Pair(first=1, second=None)"),
    ],
)
def test_what_is_written(value, text):
    assert written(value) == text


def test_keys_and_deleted_arrays_are_written_by_their_shapes():
    assert written(jax.random.key(0)) == "key<fry>[]"
    gone = jnp.ones(3)
    gone.delete()
    assert written(gone) == "float32[3]"


def test_inside_a_trace_the_shapes_are_shown():
    seen = []

    @jax.jit
    def traced(x):
        seen.append(repr(Trace(x, jnp.zeros(3))))
        seen.append(repr(Point(x, x, x, x, None, x, x)))
        return x

    traced(1.0)
    assert seen[0] == "Trace(value=float32[], error=float32[3])"
    assert seen[1].startswith("Point(kind=None, gradient_norm=float32[]")


def test_results_of_the_rooms_print_their_numbers():
    pairs = Eigenpairs(jnp.asarray([2.0, 1.0]), jnp.eye(2), jnp.zeros(2), jnp.asarray(True), jnp.asarray(7))
    assert repr(pairs) == (
        "Eigenpairs(values=[2, 1], vectors=float32[2, 2] from 0 to 1, residuals=[0, 0], converged=True, products=7)"
    )
    assert "nodes=float32[1, 2] from -1 to 4" in repr(Density(jnp.asarray([[-1.0, 4.0]]), jnp.full((1, 2), 0.5)))
    number = jnp.float32(0.5)
    noise = GradientNoise(9, 4, number, number, number, number, jnp.asarray([0.1, jnp.inf]), pairs)
    assert "noise_scale=0.5, interval=[0.1, inf], top=Eigenpairs(values=[2, 1]" in repr(noise)
    point = Point(number * 0, -number, number, number, jnp.zeros(2), number, number / 9)
    assert repr(point).startswith("Point(kind='saddle', gradient_norm=0, least=-0.5")
    network = MLP((2, 3, 1), jnp.tanh, key=jax.random.key(0))
    assert repr(Trained(network, jnp.asarray([2.0, 1.0]), None)).startswith(
        "Trained(network=<MLP: 13 numbers>, losses=[2"
    )
    assert repr(Path(jnp.zeros((3, 2)), jnp.ones(3), jnp.ones(3))).endswith("value=[1, 1, 1], gradient_norm=[1, 1, 1])")


def test_modules_show_themselves_too():
    class Result(eqx.Module):
        value: jax.Array
        name: str = eqx.field(static=True)

        __repr__ = shown

    assert repr(Result(jnp.float32(2.5), "x")) == "Result(value=2.5, name='x')"
    assert written([Result(jnp.float32(2.5), "x")]) == "[Result(value=2.5, name='x')]"
