"""VC dimensions, Sauer's lemma on random families, and how large the bounds are that follow."""

from itertools import pairwise
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Range, Size, at_least, at_most, claim, control, equal, monotone, printed, rate
from corollary.generalization import (
    Halfspaces,
    Intervals,
    dichotomies,
    growth,
    radon_labelling,
    relu_vc_upper,
    samples_to_reach,
    sauer,
    vc,
    vc_dimension,
)
from corollary.linear import labelings, linearly_separable


@claim(rows=("B08.13", "B08.12"))
def dimension_of_half_spaces(key, *, d: Annotated[int, Range(1, 8)] = 4, configurations: Size = 300):
    r"""Half-spaces of d dimensions shatter some d + 1 points and no d + 2.

    The origin and the unit vectors have every labelling $y$ by $w_i=y_i-y_0$, $b=y_0$. Any $d+2$ points have an affine
    dependence, and the labelling by its signs is not linear (Radon). Without the bias $d+1$ points are never
    shattered.
    """
    points, y = vc_dimension(Halfspaces(d)).points, labelings(d + 1)
    values = (y[:, 1:] - y[:, :1]) @ points.T + y[:, :1]
    yield equal("labels of the origin and the unit vectors", jnp.sign(values), y)

    @jax.jit
    def separated(key):
        x = jax.random.normal(key, (configurations, d + 2, d))
        signs = jax.vmap(radon_labelling)(x)
        return jax.vmap(lambda x, y: linearly_separable(x, jnp.where(y, 1.0, -1.0)))(x, signs)

    yield equal("configurations of d + 2 points that are separated", np.asarray(separated(key)).sum(), 0)
    small = np.concatenate([np.zeros((1, 2)), np.eye(2)])
    yield equal("ways to divide three points of the plane", len(dichotomies(Halfspaces(2), small)), 8)
    yield control(
        "there is a bias",
        equal("ways to divide three points", len(dichotomies(Halfspaces(2, bias=False), small + 1)), 8),
    )


def _families(key, n, families):
    """Random families of subsets of n elements, of all sizes: (families, 2^n), and for each which sets it shatters."""
    everything = np.arange(2**n)
    traces = everything[:, None] & everything  # [T, s]
    patterns = (traces[..., None] == everything).astype(np.float32)
    density_key, member_key = jax.random.split(key)

    @jax.jit
    def measure(density_key, member_key, patterns):
        density = jax.random.uniform(density_key, (families, 1)) ** 2
        member = jax.random.bernoulli(member_key, density, (families, 2**n))
        different = jnp.sum(jnp.einsum("fs,tsp->ftp", member.astype(jnp.float32), patterns) > 0, -1)
        return member, different == 2 ** jax.lax.population_count(jnp.arange(2**n))

    return (np.asarray(a) for a in measure(density_key, member_key, patterns))


@claim(rows=("B08.14",))
def sauer_lemma(key, *, n: Annotated[int, Range(3, 7)] = 6, families: Size = 1000):
    r"""Sauer and Shelah: a class of VC dimension h divides n points in at most a sum of binomials of ways.

    $S(n)\le\sum_{i=0}^h\binom ni\le(en/h)^h$, the last for $n\ge h\ge1$; and (Pajor) a family shatters at least as many
    sets as it has members. For all subsets of size $h$ at most, and for intervals, the first is an equality; for
    half-planes and four points it is 14 against 15.
    """
    member, shattered = _families(key, n, families)
    sizes = np.array([bin(t).count("1") for t in range(2**n)])
    size = member.sum(1)
    some = size > 0
    dimension = np.where(shattered, sizes, 0).max(1)
    bound = np.array([sauer(n, h) for h in range(n + 1)])
    yield at_most("members of a random family", size[some], bound[dimension[some]])
    yield at_least("sets that a family shatters", shattered.sum(1)[some], size[some])
    balls = [np.sum(sizes <= h) for h in range(n + 1)]
    yield equal("subsets of size h at most", balls, bound)
    yield equal("intervals", [growth(Intervals(), m) for m in range(1, 30)], [sauer(m, 2) for m in range(1, 30)])
    yield at_most("half-planes", [growth(Halfspaces(2), m) for m in range(1, 30)], [sauer(m, 3) for m in range(1, 30)])
    pairs = [(m, h) for h in range(1, 21) for m in range(h, 121, 7)]
    powers = [(np.e * m / h) ** h for m, h in pairs]
    yield at_most("sums of binomials, against (en/h)^h", [float(sauer(m, h)) for m, h in pairs], powers)
    largest = size[dimension == n]  # families that shatter everything, with a dimension that is n and not 2
    yield control("the VC dimension is h", at_most("members", np.append(largest, 2**n), sauer(n, 2)))


@claim(rows=("B08.14",), erratum="For n < h the sum of binomials is said to grow faster than exponentially: it is 2^n.")
def growth_below_the_dimension(key, *, h: Annotated[int, Range(4, 100)] = 20):
    r"""Below the VC dimension the sum of binomials grows faster than exponentially in n.

    As printed: then the ratio of two successive sums would rise without end. It is 2 for all $n\le h$, and from there
    on it falls.
    """
    sums = np.array([float(sauer(n, h)) for n in range(1, 2 * h)])
    ratio = sums[1:] / sums[:-1]
    yield equal("ratio of successive sums, n up to h", ratio[: h - 1], 2.0)
    yield monotone("ratio of successive sums, n above h", ratio[h - 1 :], "decreasing", strict=True)
    yield printed(monotone("ratio of successive sums, n up to h", ratio[: h - 1], strict=True))


@claim(rows=("B08.16",))
def networks_on_the_line(key, *, units: Annotated[int, Range(1, 10)] = 7):
    r"""ReLU networks with k units shatter k + 1 points of the line; their VC dimension is of the order W L log W.

    One hidden layer of $k$ units interpolates any values at $k+1$ points: with a kink at each of the first $k$ points
    and a constant, the values follow one after the other. So the dimension is at least $k+1$; an explicit upper bound
    is $L+\sum W_i\log_2(4eR\log_2(2eR))$, which is at most a multiple of $WL\log_2W$.
    """
    x = jnp.sort(jax.random.normal(key, (units + 1,)))

    @jax.jit
    def fitted(x):
        hidden = jnp.maximum(x[:, None] - x[None, :-1], 0)
        matrix = jnp.concatenate([jnp.ones((units + 1, 1)), hidden], 1)
        labels = labelings(units + 1)
        weights = jax.scipy.linalg.solve_triangular(matrix, labels.T, lower=True)
        return jnp.sign(matrix @ weights).T, labels

    signs, labels = fitted(x)
    yield equal("all labellings of k + 1 points", signs, labels)
    shattered = len(np.unique(np.asarray(signs), axis=0))
    yield at_most("points shattered, against the upper bound", np.log2(shattered), relu_vc_upper([1, units, 1]))
    depths, widths = (a.ravel() for a in np.meshgrid([1, 2, 4, 8], [10, 100, 1000]))
    shapes = [[20] + [int(w)] * int(depth) + [1] for depth, w in zip(depths, widths, strict=True)]
    weights = np.array([sum((a + 1) * b for a, b in pairwise(s)) for s in shapes])
    order = weights * (depths + 1) * np.log2(weights)
    # log₂(4eR log₂(2eR)) with R ≤ L W is at most 3 log₂ W here, since L < W and 4e log₂(2eR) < W
    upper = [relu_vc_upper(s) for s in shapes]
    yield at_most("upper bound, against 3 W L log W", upper, 3 * order)
    yield control(
        "the network has k units: here one less",
        at_least("rank of the units at k + 1 points", _rank(x, units - 1), units + 1),
    )


def _rank(x, units):
    """How many directions of labels a constant and the first units reach."""
    matrix = np.concatenate([np.ones((len(x), 1)), np.maximum(x[:, None] - x[None, :units], 0)], 1)
    return np.linalg.matrix_rank(matrix)


@claim(rows=("B08.16",), erratum="The number of examples is said to scale inversely with the VC dimension.")
def examples_against_dimension(key, *, epsilon: Annotated[float, Range(0.01, 1.0)] = 0.2):
    r"""The examples that are needed scale inversely with the VC dimension.

    As printed. They are proportional to it: what $2\sqrt{\frac2n(h\ln\frac{2en}h+\ln\frac2\delta)}\le\epsilon$ needs
    grows with $h$, with a slope of one.
    """
    h = 4 ** np.arange(2, 8)
    needed = [samples_to_reach(lambda n, k=k: vc(n, 0.05, dimension=int(k)), epsilon) for k in h]
    # ln(2/δ) is a tenth of h ln(2en/h) at h = 4² and vanishes: the slope is 1 but for a hundredth
    yield rate("examples needed", h, needed, 1.0, tolerance=0.05, along="VC dimension")
    yield printed(rate("examples needed, printed", h, needed, -1.0, tolerance=0.05, along="VC dimension"))
