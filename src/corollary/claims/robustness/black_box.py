"""Attacks by questions, through other networks, and past what hides the gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.data import digits
from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, rate
from corollary.nets import MLP, relu, tanh, train
from corollary.robustness import Ball, QuantisedInput, finite_difference_pgd, pgd, straight_through, transfer
from corollary.robustness.black_box import Differences


@claim(rows=("B12.06",))
def finite_differences(key, *, dim: Size = 10, n: Size = 100):
    r"""Questions replace the gradient: two per coordinate, with an error of second order; attacks succeed as often.

    Of a smooth loss $\frac{\ell(x+he_i)-\ell(x-he_i)}{2h}$ is off by $O(h^2)$ and $\frac{\ell(x+he_i)-\ell(x)}h$ by
    $O(h)$, until rounding takes over; each step of an attack costs $2d+1$ questions, or $d+1$. Attacks with either are
    as successful as with the gradient to within 2 points, in the same ball with the same steps. Without smoothness the
    order is lost.
    """
    widths = 2.0 ** -np.arange(3, 11)
    steps = 10

    @jax.jit
    def measure(key):
        net_key, x_key, kink_key = jax.random.split(key, 3)
        network = MLP((dim, 16, 3), tanh, key=net_key, initialisation=jax.nn.initializers.lecun_normal())
        x = jax.random.normal(x_key, (n, dim))
        y = jnp.argmax(jax.vmap(network)(x), 1)

        def errors(scheme, objective, x):
            exact = jax.vmap(jax.grad(lambda x, y: objective(x, y)[0]))(x, y)
            asked = lambda h: jax.vmap(lambda x, y: Differences(h, scheme)(lambda x: objective(x, y), x)[1])(x, y)  # noqa: E731
            return jnp.linalg.norm(jax.vmap(asked)(widths) - exact, axis=-1).mean(1)

        smooth = lambda x, y: (-jax.nn.log_softmax(network(x))[y], False)  # noqa: E731
        direction = jax.random.normal(kink_key, (dim,))
        kinked = lambda x, y: (jnp.abs(direction @ x), False)  # noqa: E731
        on_kink = x - jnp.outer(x @ direction, direction) / (direction @ direction)
        ball, data = Ball(np.inf, 0.2), (x, y)
        asked = [
            finite_difference_pgd(network, "cross_entropy", data, ball, scheme=s, steps=steps)
            for s in ("central", "forward")
        ]
        full = [finite_difference_pgd(network, "cross_entropy", data, ball, scheme=s, steps=steps, stop=False).queries
                for s in ("central", "forward")]  # fmt: skip
        white = pgd(network, "cross_entropy", data, ball, steps=steps)
        return {
            "central": errors("central", smooth, x),
            "forward": errors("forward", smooth, x),
            "kink": errors("central", kinked, on_kink),
            "rates": jnp.stack([a.success.mean() for a in asked]),
            "white": white.success.mean(),
            "queries": full,
        }

    found = measure(key)
    yield rate("error of central differences", widths, found["central"], 2.0, tolerance=0.1, along="h")
    yield rate("error of forward differences", widths, found["forward"], 1.0, tolerance=0.1, along="h")
    yield equal("success by questions, by gradients", found["rates"], found["white"], rtol=0, atol=0.02)
    # one more at the end, where nothing is moved any more
    yield equal("questions, central", found["queries"][0], steps * (2 * dim + 1) + 1)
    yield equal("questions, forward", found["queries"][1], steps * (dim + 1) + 1)
    yield control(
        "smooth: here at the kink of an absolute value",
        rate("error of central differences", widths, found["kink"], 2.0, tolerance=0.1, along="h"),
    )


def _trained(key, data, width, steps):
    network = MLP((64, width, 10), relu, key=key, initialisation=jax.nn.initializers.he_normal())
    return train(network, "cross_entropy", data, optax.adam(5e-3), steps=steps).network


def _parts(key):
    """Digits in a random order: half to train on, and 200 others."""
    x, y = digits()
    order = jax.random.permutation(key, x.shape[0])
    x, y = jnp.asarray(x)[order], jnp.asarray(y)[order]
    return (x[:900], y[:900]), (x[900:1100], y[900:1100])


@claim(rows=("T18.03",))
def transfer_attack(key, *, steps: Count = 150):
    r"""What was made for one network fools another that saw the same data: more than noise, less than its own.

    Two networks on 900 digits of 8 by 8 pixels, of different widths and from different initial weights. Inputs of the
    largest loss of the first within $\|\delta\|_\infty\le0.15$, on 200 other digits, change the class of the second
    more often than random signs of that size do, and less often than inputs made for the second itself.
    """
    order_key, first_key, second_key, noise_key = jax.random.split(key, 4)
    train_data, test = _parts(order_key)

    @jax.jit
    def measure(first_key, second_key, noise_key, train_data, test):
        source, network = _trained(first_key, train_data, 32, steps), _trained(second_key, train_data, 48, steps)
        x, y = test
        ball = Ball(np.inf, 0.15, 0.0, 1.0)
        right = jnp.argmax(jax.vmap(network)(x), 1) == y
        noisy = jnp.clip(x + 0.15 * jax.random.rademacher(noise_key, x.shape, x.dtype), 0, 1)
        noise = jnp.argmax(jax.vmap(network)(noisy), 1) != y
        through = transfer(source, network, "cross_entropy", test, ball, steps=20).success
        own = pgd(network, "cross_entropy", test, ball, steps=20).success
        # of those that were right before
        return [jnp.sum(s & right) / jnp.sum(right) for s in (noise, through, own)]

    noise, through, own = measure(first_key, second_key, noise_key, train_data, test)
    yield at_least("share changed by transfer, beyond noise by 0.1", through, noise + 0.1)
    yield at_most("share changed by transfer, against its own attack", through, own)


@claim(rows=("T18.10",))
def hidden_gradients(key, *, steps: Count = 150):
    r"""Rounding the input hides the gradient and protects nothing: the straight-through gradient finds what was there.

    A network on digits whose inputs are rounded to 9 values first. Every gradient is 0, so that projected ascent does
    not move and never succeeds on an example that is classified rightly; `dead` says so, in every step of every
    example. With the derivative of the rounding taken for 1 the attack succeeds at least 0.8 times as often as on the
    network without rounding, $\|\delta\|_\infty\le0.2$; so do differences of inputs that are wider than the rounding.
    """
    order_key, net_key = jax.random.split(key)
    train_data, test = _parts(order_key)

    @jax.jit
    def measure(net_key, train_data, test):
        network = _trained(net_key, train_data, 32, steps)
        hidden = QuantisedInput(network, 9)
        x, y = test
        right = (jnp.argmax(jax.vmap(hidden)(x), 1) == y) & (jnp.argmax(jax.vmap(network)(x), 1) == y)
        ball = Ball(np.inf, 0.2, 0.0, 1.0)
        open_, naive, through = (
            pgd(net, "cross_entropy", test, ball, steps=20)
            for net in (network, hidden, straight_through(hidden.quantise, network))
        )
        asked = finite_difference_pgd(hidden, "cross_entropy", test, ball, steps=10, width=0.25, batch_size=200)
        judged = jnp.argmax(jax.vmap(hidden)(through.inputs), 1) != y
        share = lambda s: jnp.sum(s & right) / jnp.sum(right)  # noqa: E731
        counted = jnp.where(right, naive.dead.zero, 20)
        return share(open_.success), share(naive.success), share(judged), share(asked.success), counted

    undefended, naive, through, asked, zero = measure(net_key, train_data, test)
    yield at_least("success without rounding", undefended, 0.5)
    yield equal("success of naive ascent", naive, 0.0)
    yield equal("steps without slope, of 20", zero, 20)
    yield at_least("success of the straight-through gradient", through, 0.8 * float(undefended))
    yield at_least("success by wide differences", asked, 0.8 * float(undefended))
