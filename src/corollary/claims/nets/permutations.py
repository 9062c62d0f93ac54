"""Functions of sets must not depend on the order in which the elements are written down."""

import altair as alt
import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims._drawn import drawn
from corollary.data import cycle_graph
from corollary.evidence import Size, claim, control, equal, picture, printed
from corollary.nets import MLP, all_permutations, equivariance_defect, generators, invariance_defect, tanh
from corollary.nets.graphs import GCNLayer
from corollary.nets.sets import DeepSets, DeepSetsEquivariant

ELEMENTS = 5


@claim(rows=("E07.01", "E07.02", "E07.04"))
def order_invariance(key, *, features: Size = 3):
    r"""A network of the concatenated elements sees their order and takes one size of sets; Deep Sets does neither.

    $f$ is order-invariant if $f(PX)=f(X)$ for every permutation matrix $P$. Deep Sets, $\rho(\sum_m\phi(x_m))$, is so
    for whatever $\phi$ and $\rho$, and takes sets of every size; its sum is additive over disjoint unions. A network of
    $[x_1,\dots,x_M]$ is neither. It is enough to look at an exchange and a cycle, which generate all permutations: the
    linear functionals that both leave alone are the multiples of the sum, a space of dimension 1; the exchange alone
    leaves $M-1$ dimensions.
    """
    orders = all_permutations(ELEMENTS)

    def models(key):
        phi_key, rho_key, flat_key = jax.random.split(key, 3)
        sets = DeepSets(
            drawn(lambda k: MLP((features, 16, 8), tanh, key=k), phi_key),
            drawn(lambda k: MLP((8, 16, 1), tanh, key=k), rho_key),
        )
        flat = drawn(lambda k: MLP((ELEMENTS * features, 16, 1), tanh, key=k), flat_key)
        return sets, lambda x: flat(x.ravel())

    @jax.jit
    def measure(key):
        model_key, x_key = jax.random.split(key)
        sets, flat = models(model_key)
        x = jax.random.normal(x_key, (ELEMENTS, features))
        outputs = jax.vmap(lambda p: jnp.concatenate([sets(x[p]), flat(x[p])]))(orders)
        parts = sets.representation(x), sets.representation(x[:2]) + sets.representation(x[2:])
        return outputs.T, parts, invariance_defect(sets, x, generators(ELEMENTS))

    (sets, flat), (whole, parts), defect = measure(key)
    yield equal("Deep Sets over all orders of the set", sets, sets[0], along="permutation")
    yield equal("change under the two that generate all orders", defect, 0.0)
    yield equal("the sum over a set is that over its parts", whole, parts)
    # what leaves the weights of a linear functional alone: the kernel of P - I for each permutation P
    moves = np.eye(ELEMENTS)[np.asarray(generators(ELEMENTS))] - np.eye(ELEMENTS)
    dims = [ELEMENTS - np.linalg.matrix_rank(m) for m in (moves.reshape(-1, ELEMENTS), moves[0])]
    yield equal("invariant linear functionals: under both generators, under the exchange", dims, [1, ELEMENTS - 1])
    taken = [[_takes(lambda k, x, i=i: models(k)[i](x), key, n, features) for n in range(1, 9)] for i in range(2)]
    yield equal("sizes from 1 to 8 that are taken: Deep Sets, concatenation", np.sum(taken, axis=1), [8, 1])
    yield control(
        "the elements are summed: here concatenated",
        equal("output over all orders", flat, flat[0], along="permutation"),
    )
    rows = [
        {"output": float(v - o[0]), "network": n} for n, o in (("Deep Sets", sets), ("concatenation", flat)) for v in o
    ]
    yield picture(
        "output over all orders, less the first",
        alt.Chart(alt.Data(values=rows))
        .mark_tick(thickness=1.5)
        .encode(alt.X("output:Q"), alt.Y("network:N", title=None))
        .properties(width=300, height=90),
    )


def _takes(f, key, size, features) -> bool:
    try:
        jax.eval_shape(f, key, jax.ShapeDtypeStruct((size, features), float))
    except ValueError:
        return False
    return True


def _maps(key, features):
    """Four equivariant maps of the rows of a matrix, and one that numbers them."""
    net_key, phi_key, rho_key, q_key = jax.random.split(key, 4)
    each = drawn(lambda k: MLP((features, 8, 2), tanh, key=k), net_key)
    sets = DeepSetsEquivariant(
        drawn(lambda k: MLP((features, 8, 4), tanh, key=k), phi_key),
        drawn(lambda k: MLP((features + 4, 8, 2), tanh, key=k), rho_key),
    )
    q = jax.random.normal(q_key, (features, features))
    return {
        "one network for each": jax.vmap(each),
        "Deep Sets": sets,
        "self-attention": lambda x: jax.nn.softmax(x @ q @ x.T, axis=1) @ x[:, :2],
        "with positions": lambda x: jax.vmap(each)(x + jnp.arange(float(len(x)))[:, None]),
    }


@claim(rows=("E07.03", "E07.05"))
def equivariance(key, *, features: Size = 3):
    r"""One network for each element, self-attention and the equivariant Deep Sets move with the elements.

    $f:R^M\to Y^M$ is equivariant if $f(PX)=Pf(X)$ for every permutation, equivalently $f(X)=P^\top f(PX)$. So are all
    $f(X)_i=\rho(x_i,\sum_m\phi(x_m))$ and attention without positions; adding a position to every element breaks it.
    """
    orders = all_permutations(ELEMENTS)

    @jax.jit
    def measure(key):
        model_key, x_key = jax.random.split(key)
        x = jax.random.normal(x_key, (ELEMENTS, features))
        maps = _maps(model_key, features)
        moved = jax.vmap(lambda p: jnp.stack([f(x[p]) for f in maps.values()]))(orders)
        return moved, equivariance_defect(maps["Deep Sets"], x, generators(ELEMENTS))

    moved, defect = measure(key)
    moved = np.moveaxis(np.asarray(moved), 1, 0)  # (maps, orders, elements, 2); the first order is that of x itself
    plain = np.stack([m[0][np.asarray(orders)] for m in moved])
    for name, a, b in zip(("one network for each", "Deep Sets", "self-attention"), moved, plain, strict=False):
        yield equal(f"{name}: f(PX) and Pf(X) over all orders", a, b)
    yield equal("Deep Sets: defect under the two that generate all orders", defect, 0.0)
    yield control("there are no positions: here they are added", equal("f(PX) and Pf(X)", moved[3], plain[3]))


@claim(
    rows=("E07.03", "E07.10"),
    erratum="f(X) = P f(PX) holds for permutations that are their own inverse; in general it is P transposed.",
)
def printed_matrix_form(key, *, features: Size = 3):
    r"""As printed: a function is equivariant exactly if f(X) = P f(PX) for all permutations.

    Definition 7.2: $f(X)=Pf(PX)$, and Definition 7.5 for graphs: $f(X,A)=Pf(PX,PAP^\top)$. The definition in words,
    $f(x_{\pi_1},\dots,x_{\pi_M})=(y_{\pi_1},\dots,y_{\pi_M})$, is $f(PX)=Pf(X)$, hence $f(X)=P^\top f(PX)$. For an
    exchange both say the same; a cycle of three refutes the printed form for functions that are equivariant.
    """
    exchange, cycle = generators(ELEMENTS)

    @jax.jit
    def measure(key):
        model_key, gcn_key, x_key = jax.random.split(key, 3)
        x = jax.random.normal(x_key, (ELEMENTS, features))
        sets = _maps(model_key, features)["Deep Sets"]
        layer = drawn(lambda k: GCNLayer(features, 2, tanh, key=k), gcn_key)
        a = jnp.asarray(cycle_graph(ELEMENTS)).at[0, 2].set(1.0).at[2, 0].set(1.0)

        def sides(p):
            graph = layer(x[p], a[p][:, p])
            back = jnp.argsort(p)
            return jnp.stack([sets(x[p])[p], graph[p]]), jnp.stack([sets(x[p])[back], graph[back]])

        return jnp.stack([sets(x), layer(x, a)]), sides(exchange), sides(cycle)

    plain, exchanged, turned = measure(key)
    yield equal("an exchange: P f(PX), of a set and of a graph", exchanged[0], plain)
    yield equal("a cycle: P transposed f(PX)", turned[1], plain)
    for name, found, wanted in zip(("a set", "a graph"), turned[0], plain, strict=True):
        yield printed(equal(f"a cycle: P f(PX), of {name}", found, wanted))
