r"""What an infinitely wide layer keeps of its inputs: covariances between points and pixels, and the tangent kernel."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

# so many entrywise layers make one good program
FUSED = 3


class Covariance(eqx.Module):
    r"""Second moments of one channel over the weights, for two sets of points.

    `cross[i, j]` is $\mathbb E[f(x_i)f(x'_j)]$, `first[i]` and `second[j]` the same of a point with itself, and
    `tangent[i, j]` the tangent kernel so far. Points with pixels have more axes: `pixels` of them, for equal places in
    both images, or twice as many, for every pair of places (`pairs`), which pooling needs.
    """

    first: jax.Array
    cross: jax.Array
    second: jax.Array
    tangent: jax.Array
    pixels: int = eqx.field(static=True)
    pairs: bool = eqx.field(static=True)

    def map(self, f) -> "Covariance":
        """The same linear operation on the pixels of all of them; `f(array, points)` has that many axes of points."""
        return eqx.tree_at(
            lambda s: (s.first, s.cross, s.second, s.tangent),
            self,
            (f(self.first, 1), f(self.cross, 2), f(self.second, 1), f(self.tangent, 2)),
        )


def of_inputs(x1, x2, pairs: bool) -> Covariance:
    """That of the inputs themselves, averaged over the channels; `x2` None: of `x1` with itself."""
    pixels = x1.ndim - 2
    pairs = pairs and pixels > 0
    y = x1 if x2 is None else x2
    cross = _products(x1, y, pairs)
    first, second = _own(x1, pairs), _own(y, pairs)
    if x2 is None:
        # a point with itself, summed in the same order as its variance: at correlation 1 a rounding error counts as
        # its square root
        same = jnp.eye(x1.shape[0], dtype=bool).reshape(cross.shape[:2] + (1,) * (cross.ndim - 2))
        cross = jnp.where(same, first[:, None], cross)
    return Covariance(first, cross, second, jnp.zeros_like(cross), pixels, pairs)


def _products(x, y, pairs):
    """Mean over channels of the products: of all pairs of points, and of equal places or of all pairs of places."""
    pixels, channels = x.ndim - 2, x.shape[-1]
    if pixels and not pairs:
        flat = (a.reshape(a.shape[0], -1, channels) for a in (x, y))
        out = jnp.einsum("npc,mpc->nmp", *flat, precision="highest") / channels
        return out.reshape(out.shape[:2] + x.shape[1:-1])
    out = jnp.tensordot(x, y, (-1, -1), precision="highest") / channels
    return jnp.moveaxis(out, pixels + 1, 1) if pixels else out


def _own(x, pairs):
    if not pairs:
        return jnp.mean(x * x, -1)
    return jax.vmap(lambda a: jnp.tensordot(a, a, (-1, -1), precision="highest"))(x) / x.shape[-1]


def affine(state: Covariance, weight_std, bias_std) -> Covariance:
    r"""A layer of fresh weights: $q\mapsto\sigma_w^2q+\sigma_b^2$; its parameters add the new $q$ to the tangent."""
    first, cross, second = (weight_std**2 * q + bias_std**2 for q in (state.first, state.cross, state.second))
    return _with(state, first, cross, second, weight_std**2 * state.tangent + cross)


def activate(state: Covariance, phi) -> Covariance:
    r"""$q\mapsto\mathbb E[\phi(u)\phi(v)]$; the tangent kernel is multiplied by $\mathbb E[\phi'(u)\phi'(v)]$."""
    if not state.pairs:
        first, second = state.first[:, None], state.second[None]
        value, slope = phi.pair(first, state.cross, second)
        own1, own2 = (phi.pair(q, q, q)[0] for q in (state.first, state.second))
        return _with(state, own1, value, own2, state.tangent * slope)
    d1, d2 = _variances(state.first, state.pixels), _variances(state.second, state.pixels)
    here, there = _places(state.pixels)
    value, slope = phi.pair(here(d1)[:, None], state.cross, there(d2)[None])
    own1 = phi.pair(here(d1), state.first, there(d1))[0]
    own2 = phi.pair(here(d2), state.second, there(d2))[0]
    return _with(state, own1, value, own2, state.tangent * slope)


def apart(layer, state: Covariance) -> Covariance:
    """`layer(state)` as a computation of its own, in a branch that is always taken.

    XLA fuses entrywise layers and computes the earlier ones anew in each later one: two or three in one loop over the
    pairs are fastest, six are ten times slower than one by one. It removes its own barriers on a CPU before that.
    """
    return lax.cond(state.first.ravel()[0] >= 0, layer, lambda s: s, state)


def mean_over_places(state: Covariance, pool: bool) -> Covariance:
    """What a dense layer sees of the pixels: each times itself (`pool` False), or their average times itself."""

    def collapse(q, points):
        if state.pairs and not pool:
            flat = q.reshape(q.shape[:points] + (_count(q, points, state.pixels),) * 2)
            return jnp.mean(jnp.diagonal(flat, axis1=-2, axis2=-1), -1)
        return jnp.mean(q, tuple(range(points, q.ndim)))

    out = state.map(collapse)
    return Covariance(out.first, out.cross, out.second, out.tangent, 0, False)


def windows(state: Covariance, window) -> Covariance:
    """A mean over the window of a convolution; `window(array, axes, k)` slides along axis k of the image.

    Both places of a pair move together, by the same offset.
    """

    def slide(q, points):
        for k in range(state.pixels):
            axes = (points + k, points + state.pixels + k) if state.pairs else (points + k,)
            q = window(q, axes, k)
        return q

    return state.map(slide)


def add(a: Covariance, b: Covariance) -> Covariance:
    """Of a sum of independent parts."""
    return jax.tree.map(jnp.add, a, b)


def _with(state, first, cross, second, tangent):
    return Covariance(first, cross, second, tangent, state.pixels, state.pairs)


def _count(q, points, pixels):
    count = 1
    for size in q.shape[points : points + pixels]:
        count *= size
    return count


def _variances(q, pixels):
    """(n, *S) from the pairs (n, *S, *S) of a point with itself."""
    flat = q.reshape((q.shape[0],) + (_count(q, 1, pixels),) * 2)
    return jnp.diagonal(flat, axis1=1, axis2=2).reshape(q.shape[: 1 + pixels])


def _places(pixels):
    """Variances (n, *S) placed along the first or the second half of the axes of pairs."""

    def here(d):
        return d.reshape(d.shape + (1,) * pixels)

    def there(d):
        return d.reshape(d.shape[:1] + (1,) * pixels + d.shape[1:])

    return here, there
