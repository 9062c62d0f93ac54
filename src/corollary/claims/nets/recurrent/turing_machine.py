"""A memory that is read and written through weights, and that gradients go through."""

import jax
import jax.numpy as jnp

from corollary.claims.autodiff._pictures import curves
from corollary.evidence import Size, at_most, claim, control, equal
from corollary.nets.recurrent import MemoryHead, address, read, write


@claim(rows=("T04.14",))
def content_memory(key, *, places: Size = 8, width: Size = 5):
    r"""A memory addressed by content is differentiable, and becomes a hard look-up as the sharpness grows.

    With $w_i\propto e^{\beta\cos(k,M_i)}$ and $r=\sum_iw_iM_i$: if the best cosine exceeds all others by $g$, then
    $\|r-M_{i^*}\|\le(n-1)e^{-\beta g}\max_i\|M_i-M_{i^*}\|$. Erasing with $e=1$ and adding $a$ at a sharp address
    leaves $a$ there, and nothing changed elsewhere.
    """
    k1, k2, k3 = jax.random.split(key, 3)
    memory, query = jax.random.normal(k1, (places, width)), jax.random.normal(k2, (width,))
    head = MemoryHead(4, width, key=k3)
    state = jax.random.normal(jax.random.fold_in(key, 1), (4,))
    sharpness = 2.0 ** jnp.arange(0, 8)
    h = 1e-5

    @jax.jit
    def measure(memory, query, head, state):
        weights = jax.vmap(lambda beta: address(memory, query, beta))(sharpness)
        reads = jax.vmap(lambda w: read(memory, w))(weights)
        cosines = memory @ query / jnp.linalg.norm(memory, axis=1) / jnp.linalg.norm(query)
        best = jnp.argmax(cosines)
        gap = cosines[best] - jnp.sort(cosines)[-2]
        away = jnp.linalg.norm(memory - memory[best], axis=1).max()
        bound = (places - 1) * jnp.exp(-sharpness * gap) * away
        # sharp enough for this memory, however close its two best rows are
        hard = read(memory, address(memory, query, 30 / gap))
        sharp = jax.nn.one_hot(best, places)
        after = write(memory, sharp, jnp.ones(width), query)

        def through(state):
            out = head(memory, state)
            return jnp.sum(out.read**2) + jnp.sum(jnp.tanh(out.memory))

        def central(h):
            return jax.vmap(lambda e: (through(state + h * e) - through(state - h * e)) / (2 * h))(jnp.eye(4))

        return {
            "weights": jnp.sort(weights, axis=1)[:, ::-1],
            "distance": jnp.linalg.norm(reads - memory[best], axis=1),
            "bound": bound,
            "written": (after, jnp.where(sharp[:, None] > 0, query, memory)),
            "gradient": jax.grad(through)(state),
            "differences": central(h),
            "coarser": central(2 * h),
            "hard": jnp.linalg.norm(hard - memory[best]),
            "hard bound": (places - 1) * jnp.exp(-30.0) * away,
            "soft": jnp.linalg.norm(memory.mean(0) - memory[best]),
        }

    m = measure(memory, query, head, state)
    names = [f"row {i + 1} by similarity" for i in range(min(places, 4))]
    shown = dict(zip(names, m["weights"].T, strict=False))
    yield curves("weights of the rows", sharpness, shown, titles=("sharpness β", "weight"), log="x")
    # at the largest sharpness both sides are rounding
    yield at_most("distance from the best row", m["distance"], m["bound"], atol=1e-13, x=sharpness, along="sharpness β")
    yield at_most("distance from the best row at β = 30/g", m["hard"], m["hard bound"], atol=1e-13)
    yield equal("what is written", *m["written"], atol=1e-14)
    # a double step errs four times as much, so the two differences are three errors apart; rounding is about eps / h
    allowed = float(jnp.abs(m["coarser"] - m["differences"]).max()) + 1e-9
    yield equal("gradient through read and write", m["gradient"], m["differences"], rtol=0, atol=allowed)
    yield control(
        "all rows have the same weight, whatever the query",
        at_most("distance from the best row at β = 30/g", m["soft"], m["hard bound"], atol=1e-13),
    )
