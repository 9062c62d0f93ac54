"""Two networks trained against each other as one compiled loop, on the one step that all training takes."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from corollary._validate import real, whole
from corollary.nets import stepwise
from corollary.network import BatchLoss
from corollary.network._code import by_code
from corollary.network.parts import split


class Sides(NamedTuple):
    """What the loop needs to know; compared by what it does, so that compiled programs are found again."""

    judge_loss: Any  # of (judge, x, fake, share, bound)
    generator_loss: Any  # of (judge, generator, z)
    project: Any  # of the judge's parameters after each of his steps and the bound, or None
    together: Any  # (generator, judge) -> what is measured and returned
    measure: Any


def require_networks(**networks) -> None:
    """One sentence for what cannot be called."""
    for name, network in networks.items():
        if not callable(network):
            raise TypeError(f"{name} must be a network of one example, got {type(network).__name__}.")


def number(name: str, out):
    """The one number that a network must return."""
    if jnp.size(out) != 1:
        raise ValueError(f"the {name} must return one number for an example, got shape {jnp.shape(out)}.")
    return jnp.reshape(out, ())


def weighted(values, weights, name: str):
    """The mean of `values`, or their sum with the weights of a rule of quadrature."""
    if weights is None:
        return jnp.mean(values, axis=0)
    return real(name, weights, "n", {"n": values.shape[0]}) @ values


def fight(
    generator, judge, sides: Sides, data, optimisers, *, steps, key, batch_size, updates, latents, every, bound=0.0
):
    """The trained pair, the losses of both and the record; arguments that both ways of training share are checked."""
    data = real("data", data)
    if data.ndim < 2:
        raise ValueError(f"data must have examples along the first axis, shape (n, ...), got {data.shape}.")
    steps, every = whole("steps", steps), whole("every", every)
    if steps % every:
        raise ValueError(f"every must divide steps, got {every} and {steps}.")
    batch_size = None if batch_size is None else whole("batch_size", batch_size)
    for name, optimiser in optimisers.items():
        if not isinstance(optimiser, optax.GradientTransformation):
            raise TypeError(f"{name} must be an Optax transformation, got {type(optimiser).__name__}.")
    if sides.measure is not None and not callable(sides.measure):
        raise TypeError(f"measure must be a function of the trained pair, got {type(sides.measure).__name__}.")
    made = eqx.filter_eval_shape(generator, jax.ShapeDtypeStruct((latents,), data.dtype))
    if getattr(made, "shape", None) != data.shape[1:]:
        shape = getattr(made, "shape", type(made).__name__)
        raise ValueError(f"the generator must return examples like those of data, {data.shape[1:]}, got {shape}.")
    sides = Sides(*(None if part is None else by_code(part) for part in sides))
    optimisers = tuple(o._replace(init=by_code(o.init), update=by_code(o.update)) for o in optimisers.values())
    sizes = steps, batch_size, updates, latents, every
    return _fought(generator, judge, sides, data, bound, optimisers, key, sizes)


@eqx.filter_jit
def _fought(generator, judge, sides, data, bound, optimisers, key, sizes):
    steps, batch_size, (judge_updates, generator_updates), latents, every = sizes
    count = len(data) if batch_size is None else batch_size
    judge_parts = split(judge, inference=False)

    def seeds(key):
        return jax.random.normal(key, (count, latents), data.dtype)

    def batch(key, generator):
        """Real examples, generated ones, and a place between the two for each pair."""
        x_key, z_key, share_key = jax.random.split(key, 3)
        x = data if batch_size is None else data[jax.random.randint(x_key, (count,), 0, len(data))]
        fake = jax.vmap(generator)(seeds(z_key))
        return x, fake, jax.random.uniform(share_key, (count,), data.dtype)

    # the judge sees samples and never the generator, the generator the judge and never the data
    example = jax.eval_shape(lambda key: batch(key, generator), key)
    example = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), example)
    judging = stepwise(
        judge, BatchLoss(lambda judge, batch: sides.judge_loss(judge, *batch, bound)), example, optimisers[0]
    )
    making = stepwise(
        generator,
        BatchLoss(lambda generator, batch: sides.generator_loss(judge_parts.join(batch[1]), generator, batch[0])),
        (example[1], judge_parts.params),
        optimisers[1],
    )

    def one_round(carry, number):
        judge_key, generator_key = jax.random.split(jax.random.fold_in(key, number))
        judged, made = carry
        current = making.network(made)

        def judge_step(progress, key):
            progress, value = judging.step(progress, batch(key, current))
            if sides.project is not None:
                progress = progress._replace(params=sides.project(progress.params, bound))
            return progress, value

        def generator_step(progress, key):
            return making.step(progress, (seeds(key), judged.params))

        judged, values = jax.lax.scan(judge_step, judged, jax.random.split(judge_key, judge_updates))
        made, losses = jax.lax.scan(generator_step, made, jax.random.split(generator_key, generator_updates))
        return (judged, made), (values[-1], losses[-1])

    def look(carry):
        if sides.measure is None:
            return None
        return sides.measure(sides.together(making.network(carry[1]), judging.network(carry[0])))

    def stretch(carry, first):
        carry, losses = jax.lax.scan(one_round, carry, first + jnp.arange(every))
        return carry, (losses, look(carry))

    start = judging.start, making.start
    last, (losses, record) = jax.lax.scan(stretch, start, jnp.arange(0, steps, every))
    losses = jax.tree.map(jnp.ravel, losses)
    record = jax.tree.map(lambda a, b: jnp.concatenate([jnp.asarray(a)[None], b]), look(start), record)
    return (making.network(last[1]), judging.network(last[0])), losses, record
