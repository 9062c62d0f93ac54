"""Point clouds: points on the surfaces of solids, turned and stretched, with the part that each lies on."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from corollary._types import Scalar
from corollary._validate import real, whole, within

SOLIDS = ("sphere", "cube", "cylinder", "torus")
# two parts a solid: part 2k and 2k + 1 belong to solid k
PARTS = (
    "upper half of the sphere",
    "lower half of the sphere",
    "floor and ceiling of the cube",
    "walls of the cube",
    "lids of the cylinder",
    "side of the cylinder",
    "inner half of the torus",
    "outer half of the torus",
)


class Clouds(NamedTuple):
    """`x` of shape (n, points, 3), the solid `y` of every cloud (n,) and the part of every point (n, points)."""

    x: jax.Array
    y: jax.Array
    parts: jax.Array


def point_clouds(count: int, points: int = 128, *, key: PRNGKeyArray, noise: Scalar = 0.02) -> Clouds:
    """Clouds of `points` points on the surface of a sphere, a cube, a cylinder or a torus, each as often as drawn.

    Every cloud is stretched by a factor between 0.8 and 1.2 along each axis, turned about the vertical axis by any
    angle, and every coordinate has Gaussian `noise`.
    """
    count, points = whole("count", count), whole("points", points)
    noise = within("noise", real("noise", noise, ""), 0.0)

    def one(key):
        kind_key, cloud_key = jax.random.split(key)
        kind = jax.random.randint(kind_key, (), 0, len(SOLIDS))
        return _cloud(cloud_key, kind, points, noise)

    return Clouds(*jax.vmap(one)(jax.random.split(key, count)))


def _cloud(key, kind, points, noise):
    surface_key, stretch_key, turn_key, noise_key = jax.random.split(key, 4)
    drawn = [solid(surface_key, points) for solid in (_sphere, _cube, _cylinder, _torus)]
    x, second = (jnp.stack(a)[kind] for a in zip(*drawn, strict=True))
    x = x * jax.random.uniform(stretch_key, (3,), x.dtype, 0.8, 1.2)
    angle = jax.random.uniform(turn_key, (), x.dtype, 0, 2 * jnp.pi)
    c, s = jnp.cos(angle), jnp.sin(angle)
    x = x @ jnp.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]], x.dtype)
    return x + noise * jax.random.normal(noise_key, x.shape, x.dtype), kind, 2 * kind + second


def _sphere(key, points):
    x = jax.random.normal(key, (points, 3))
    x = x / jnp.linalg.norm(x, axis=1, keepdims=True)
    return x, (x[:, 2] < 0).astype(int)


def _cube(key, points):
    face_key, place_key = jax.random.split(key)
    face = jax.random.randint(face_key, (points,), 0, 6)
    x = jax.random.uniform(place_key, (points, 3), minval=-0.8, maxval=0.8)
    on = jnp.arange(3) == (face % 3)[:, None]
    x = jnp.where(on, jnp.where(face < 3, 0.8, -0.8)[:, None], x)
    return x, (face % 3 != 2).astype(int)


def _cylinder(key, points):
    # radius 0.7 and height 1.4: the side has the area 2 pi r h, both lids together 2 pi r^2, twice as little
    lid_key, angle_key, height_key, radius_key = jax.random.split(key, 4)
    lid = jax.random.bernoulli(lid_key, 1 / 3, (points,))
    angle = jax.random.uniform(angle_key, (points,), maxval=2 * jnp.pi)
    height = jax.random.uniform(height_key, (points,), minval=-0.7, maxval=0.7)
    height = jnp.where(lid, 0.7 * jnp.where(height > 0, 1.0, -1.0), height)
    radius = 0.7 * jnp.where(lid, jnp.sqrt(jax.random.uniform(radius_key, (points,))), 1.0)
    return jnp.stack([radius * jnp.cos(angle), radius * jnp.sin(angle), height], 1), (~lid).astype(int)


def _torus(key, points):
    # angles are drawn evenly, not by area: the inner half has as many points as the outer one
    around, about = jax.random.uniform(key, (2, points), maxval=2 * jnp.pi)
    radius = 0.7 + 0.3 * jnp.cos(about)
    x = jnp.stack([radius * jnp.cos(around), radius * jnp.sin(around), 0.3 * jnp.sin(about)], 1)
    return x, (radius > 0.7).astype(int)
