"""Two networks trained against each other as one compiled loop, on the one step that all training takes."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from corollary._validate import real, whole
from corollary.nets import resumable, stepwise
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
    generator,
    judge,
    sides: Sides,
    data,
    optimisers,
    *,
    steps,
    key,
    batch_size,
    updates,
    latents,
    every,
    checkpoint,
    arguments,
    bound=0.0,
):
    """The trained pair, the losses of both and the record; arguments that both ways of training share are checked.

    `arguments` are those of the call that are not among these, by name, for the head of the file `checkpoint`.
    """
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
    if checkpoint is not None:
        shapes = jax.tree.map(_shape, eqx.filter((generator, judge), eqx.is_array_like))
        arguments = arguments | {"networks": shapes, "data": data, "key": key, "batch_size": batch_size} | optimisers
    sides = Sides(*(None if part is None else by_code(part) for part in sides))
    optimisers = tuple(o._replace(init=by_code(o.init), update=by_code(o.update)) for o in optimisers.values())
    sizes = batch_size, updates, latents, every
    given = generator, judge, sides, data, bound, optimisers, key, sizes
    if checkpoint is None:
        return _fought(given, steps)
    start, first = _begun(given)
    last, (losses, record) = resumable(
        lambda carry, first: _stretched(given, carry, first),
        start,
        steps=steps,
        every=every,
        checkpoint=checkpoint,
        arguments=arguments,
    )
    return _ended(_game(*given), last, losses, first, record)


class _Game(NamedTuple):
    """The loop in pieces: where it begins, `every` rounds of it, what is measured, and the pair of networks."""

    start: Any
    stretch: Any
    look: Any
    pair: Any


@eqx.filter_jit
def _fought(given, steps):
    game, every = _game(*given), given[-1][-1]
    last, (losses, record) = jax.lax.scan(game.stretch, game.start, jnp.arange(0, steps, every))
    return _ended(game, last, losses, game.look(game.start), record)


@eqx.filter_jit
def _begun(given):
    game = _game(*given)
    return game.start, game.look(game.start)


@eqx.filter_jit
def _stretched(given, carry, first):
    return _game(*given).stretch(carry, first)


def _ended(game, last, losses, first, record):
    losses = jax.tree.map(jnp.ravel, losses)
    record = jax.tree.map(lambda a, b: jnp.concatenate([jnp.asarray(a)[None], b]), first, record)
    return game.pair(last), losses, record


def _game(generator, judge, sides, data, bound, optimisers, key, sizes) -> _Game:
    batch_size, (judge_updates, generator_updates), latents, every = sizes
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

    def pair(carry):
        return making.network(carry[1]), judging.network(carry[0])

    def look(carry):
        return None if sides.measure is None else sides.measure(sides.together(*pair(carry)))

    def stretch(carry, first):
        carry, losses = jax.lax.scan(one_round, carry, first + jnp.arange(every))
        return carry, (losses, look(carry))

    return _Game((judging.start, making.start), stretch, look, pair)


def _shape(array):
    return jax.ShapeDtypeStruct(jnp.shape(array), jnp.result_type(array))
