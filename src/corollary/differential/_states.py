r"""The states $u_{i+1}=\Phi(u_i,h_i)$ of a scheme, and how they change with all that they depend on.

A change of the parameters moves them by $\delta_{i+1}=\frac{\partial\Phi}{\partial u}\delta_i+r_i$. Where the state is
one number, the slopes $\partial\Phi/\partial u$ and the changes $r_i$ are found for many steps at once as soon as the
states are known, by products of matrices and not of a matrix with a vector for each step, and the loop is over numbers
alone, backwards as well. A vector's Jacobians cost as many products as it has entries: there the derivative is that of
the loop.
"""

import jax
import jax.numpy as jnp

from corollary._engine.program import only_reverse

# so many steps are differentiated at once, so that forward mode takes no more memory for more of them
AT_ONCE = 1024


def states(step, params, start, lengths):
    """`start` moved by `step(params, u, h)` along each of the `lengths` in turn: the state after each."""
    # a step that has a rule for the reverse mode alone cannot be differentiated forwards
    numbers = start.size == 1 and len(lengths) > 0 and not only_reverse(step, params, start, lengths[0])
    return (_of_numbers if numbers else _in_turn)(step, params, start, lengths)


def _in_turn(step, params, start, lengths):
    def onward(u, h):
        u = step(params, u, h)
        return u, u

    return jax.lax.scan(onward, start, lengths)[1]


_of_numbers = jax.custom_jvp(_in_turn, nondiff_argnums=(0,))


@_of_numbers.defjvp
def _change_of_numbers(step, primals, tangents):
    (params, start, lengths), (by_params, by_start, by_lengths) = primals, tangents
    later = _of_numbers(step, *primals)

    def at(u, h, by_h):
        slope = jax.jacfwd(lambda u: step(params, u, h).reshape(()))(u)
        return slope, jax.jvp(lambda p, h: step(p, u, h), (params, h), (by_params, by_h))[1]

    before = jnp.concatenate([start[None], later[:-1]])
    slopes, pushes = jax.lax.map(lambda seen: at(*seen), (before, lengths, by_lengths), batch_size=AT_ONCE)

    def onward(change, seen):
        slope, push = seen
        change = slope * change + push
        return change, change

    return later, jax.lax.scan(onward, by_start, (slopes, pushes))[1]
