"""Classes of finitely many functions: one that is fixed, all of them, and the one that training picks."""

from typing import Annotated

import altair as alt
import jax
import jax.numpy as jnp
import numpy as np
import scipy  # its stats load slowly, so only when a claim runs

from corollary.evidence import (
    Range,
    Size,
    at_least,
    at_most,
    claim,
    control,
    equal,
    frequency_at_most,
    picture,
    printed,
)
from corollary.foundations import (
    Dataset,
    FiniteLaw,
    average_tail,
    erm,
    expected_loss,
    generalisation_gap,
    training_loss,
)
from corollary.generalization import finite_class

DELTA = 0.05


def _beyond(n, p, epsilon, sides=1):
    """The probability that the share of n coins with mean p lies below p by more than ε, or on either side."""
    k = np.arange(n + 1)
    gap = p - k / n
    # a gap that is ε but for rounding is not beyond it
    return float(scipy.stats.binom.pmf(k, n, p)[(abs(gap) if sides == 2 else gap) > epsilon + 1e-12].sum())


@claim(rows=("B08.02",))
def one_fixed_function(key, *, range_length: Annotated[float, Range(0.1, 100)] = 5.0):
    r"""The average loss of one function that was fixed beforehand has Hoeffding's tail.

    For independent examples and a loss in $[a,b]$: $P[|R-R_S|>\epsilon]\le2\exp(-2n\epsilon^2/(b-a)^2)$, and therefore
    $|R_S-R|\le(b-a)\sqrt{\ln(2/\delta)/(2n)}$ with probability $1-\delta$. Here the loss is 0 or $b-a$, and the
    probabilities are those of the binomial law, exactly.
    """
    p = jax.random.uniform(key, (3,), minval=0.05, maxval=0.5)
    cases = [
        (n, float(mean), share) for n in (5, 50, 500) for mean in (*p, 0.5) for share in np.linspace(0.02, 0.5, 13)
    ]
    n, mean, share = (np.array(v) for v in zip(*cases, strict=True))
    tails = np.array([_beyond(*case, sides=2) for case in cases])
    bound = average_tail(range_length * share, n, range_length)
    yield at_most("probability of a gap beyond ε", tails, bound)
    deviation = np.asarray(finite_class(n, 1, DELTA, sides=2).value)
    failed = [_beyond(*case, sides=2) for case in zip(n, mean, deviation, strict=True)]
    yield at_most("probability that the bound fails", failed, DELTA)
    # one fair coin in place of a hundred examples: its share is 0 or 1, always ½ away
    same = [_beyond(1, 0.5, float(e), sides=2) for e in (0.3, 0.4, 0.45)]
    yield control(
        "the hundred examples are one and the same",
        at_most("probability of a gap beyond ε", same, average_tail(np.array([0.3, 0.4, 0.45]), 100, 1.0)),
    )


@claim(rows=("B08.03", "B08.07", "B08.08", "T05.05"), full={"draws": 20_000})
def learned_is_not_fixed(
    key, *, words: Annotated[int, Range(1, 32)] = 4, draws: Annotated[int, Range(2000, 100_000)] = 2000
):
    r"""The bound for one function fails for the one that was chosen after the data; the union bound holds for all.

    For $N$ functions with a loss in $[0,1]$, with probability $1-\delta$,
    $R(f)\le R_S(f)+\sqrt{(\ln N+\ln(1/\delta))/(2n)}$ for all of them, because
    $P(\sup_f(R-R_S)\ge\epsilon)\le Ne^{-2n\epsilon^2}$; on both sides of $R$ with $\ln(2/\delta)$. Printed besides
    with the looser $2\sqrt{(\ln N+\ln(1/\delta))/n}$. Here the losses are independent
    fair coins, a thousand functions and $n$ = 32 words of bits; for these the probability is known exactly too. The
    bound for one function is broken by the function with the largest gap.
    """
    n, sizes = 32 * words, np.array([1, 10, 100, 1000])

    @jax.jit
    def largest_gaps(key):
        bits = jax.random.bits(key, (draws, sizes[-1], words), jnp.uint32)
        errors = jnp.sum(jax.lax.population_count(bits).astype(int), -1)
        return jnp.stack([jnp.max(0.5 - errors[:, :size] / n, 1) for size in sizes])

    gaps = np.asarray(largest_gaps(key))
    union, single = (np.asarray(finite_class(n, size, DELTA).value) for size in (sizes, 1))
    frequency = np.stack([gaps > single, gaps > union[:, None]]).mean(-1)
    yield frequency_at_most("one function beyond its bound", gaps[0] > single, DELTA)
    yield frequency_at_most("some function of a thousand beyond the union bound", gaps[-1] > union[-1], DELTA)
    yield control(
        "the function was fixed before the sample: here the worst of a thousand",
        frequency_at_most("beyond the bound for one function", gaps[-1] > single, DELTA),
    )
    powers = 2 ** np.arange(15)
    for form, sides in (("sharp", 1), ("sharp", 2), ("printed", 1)):
        bounds = np.asarray(finite_class(n, powers, DELTA, form=form, sides=sides).value)
        one = np.array([_beyond(n, 0.5, e, sides) for e in bounds])
        name = f"{form} bound, {'one side' if sides == 1 else 'both sides'}: probability that it fails"
        yield at_most(name, -np.expm1(powers * np.log1p(-one)), DELTA, x=powers, along="N")
    levels = np.linspace(0.05, 0.3, 26)
    tail = np.array([_beyond(n, 0.5, e) for e in levels])
    exact = -np.expm1(1000 * np.log1p(-tail))
    yield at_most(
        "probability of a gap beyond ε, N = 1000", exact, 1000 * np.exp(-2 * n * levels**2), x=levels, along="ε"
    )
    rows = [
        {"functions": int(size), "frequency": float(value), "bound": name}
        for name, values in zip(("for one function", "for all of the class"), frequency, strict=True)
        for size, value in zip(sizes, values, strict=True)
    ]
    chart = alt.Chart(alt.Data(values=rows)).mark_line(point=True)
    chart = chart.encode(
        alt.X("functions:Q", scale=alt.Scale(type="log"), title="functions in the class"),
        alt.Y("frequency:Q", title="how often the bound fails"),
        alt.Color("bound:N", legend=alt.Legend(orient="bottom")),
    )
    yield picture("how often each bound fails", chart.properties(width=300, height=190))


@claim(rows=("B08.04", "B08.05", "B08.08"), full={"draws": 20_000})
def minimiser_of_the_training_loss(
    key,
    *,
    n: Annotated[int, Range(20, 1000)] = 100,
    cells: Annotated[int, Range(4, 256)] = 32,
    draws: Annotated[int, Range(2000, 100_000)] = 2000,
):
    r"""The minimiser of the training loss is worse than the best function by twice the largest gap at most.

    $R(f_S)-R(f^*)\le2\sup_f|R(f)-R_S(f)|$ on every sample, for $f_S$ with the least $R_S$ and $f^*$ with the least
    $R$. So with probability $1-\delta$, $R(f_S)\le R(f^*)+2\sqrt{\frac{\ln N+\ln(2/\delta)}{2n}}$ (Theorem 59). Here
    thresholds on a line of cells with a fifth of the labels wrong; and two functions for which the first is an
    equality.
    """
    cuts = np.arange(cells + 1)
    half = cells // 2
    risks = 0.2 + 0.6 * abs(cuts - half) / cells

    def loss(cut, x, y):
        return (x >= cut) != (y == 1)

    @jax.jit
    def measure(key):
        def draw(key):
            x_key, flip_key = jax.random.split(key)
            x = jax.random.randint(x_key, (n,), 0, cells)
            y = (x >= half) ^ jax.random.bernoulli(flip_key, 0.2, (n,))
            found = erm(loss, jnp.asarray(cuts), Dataset(x, y))
            return found.index, jnp.argmax(found.losses), jnp.max(jnp.abs(found.losses - risks))

        return jax.vmap(draw)(jax.random.split(key, draws))

    best, worst, gap = (np.asarray(a) for a in measure(key))
    excess = risks[best] - risks.min()
    yield at_most("excess of the minimiser, every sample", excess, 2 * gap, atol=1e-12)
    bound = 2 * float(finite_class(n, cells + 1, DELTA, sides=2).value)
    yield frequency_at_most("excess of the minimiser beyond Theorem 59", excess > bound, DELTA)
    # risks ½ and 0.3, and a sample on which both err on 4 of 10: the first of two minimisers is the worse one
    table = np.array([[1, 1]] * 4 + [[0, 0]] * 6)
    found = erm(lambda h, x, y: x[h], jnp.arange(2), Dataset(table, np.zeros(10)))
    truth = np.array([0.5, 0.3])
    yield equal(
        "two functions with equality",
        truth[int(found.index)] - truth.min(),
        2 * np.abs(truth - np.asarray(found.losses)).max(),
    )
    yield control(
        "the function has the least training loss: here the greatest",
        at_most("excess, every sample", risks[worst] - risks.min(), 2 * gap, atol=1e-12),
    )


@claim(rows=("T05.04",))
def union_bound(key, *, outcomes: Size = 200, events: Size = 8, instances: Size = 200):
    r"""Some of several events happens with at most the sum of their probabilities.

    $P(\bigcup A_i)\le\sum P(A_i)$ for any events of a probability space, with equality if they are disjoint. Summed
    over the outcomes of a finite space.
    """
    mass_key, event_key, part_key = jax.random.split(key, 3)

    @jax.jit
    def measure(mass_key, event_key, part_key):
        mass = jax.random.exponential(mass_key, (instances, outcomes))
        mass = mass / mass.sum(1, keepdims=True)
        some = jax.random.bernoulli(event_key, 0.2, (instances, events, outcomes))
        part = jax.random.randint(part_key, (instances, 1, outcomes), 0, 2 * events)
        apart = part == jnp.arange(events)[:, None]

        def sides(event):
            return jnp.sum(mass * event.any(1), 1), jnp.sum(mass[:, None] * event, (1, 2))

        return sides(some), sides(apart)

    (union, total), (apart, parts) = measure(mass_key, event_key, part_key)
    yield at_most("probability of the union", union, total)
    yield equal("disjoint events", apart, parts)
    yield control("the events are disjoint", equal("probability of the union", union, total))


def _little_law(key):
    """Three places with labels, some masses, and all classifiers of three places."""
    mass = jax.random.uniform(key, (3,), minval=0.5, maxval=1.5)
    law = FiniteLaw(jnp.arange(3), jnp.array([0, 1, 1]), mass / mass.sum())
    return law, jnp.arange(8)[:, None] // 2 ** jnp.arange(3) % 2


@claim(rows=("B08.01", "B09.01", "T05.01"))
def training_loss_is_unbiased(key, *, n: Annotated[int, Range(2, 6)] = 4):
    r"""The training loss of a fixed function is right on average; that of the minimiser is too small.

    $E_SR_S(f)=R(f)$ for every fixed $f$, summed over all samples of a law on three places; the gap
    $\max(0,R-R_S)$ is at most $|R-R_S|$. For the minimiser $f_S$ of the training loss over the two constant
    functions, $E_SR_S(f_S)<E_SR(f_S)$.
    """
    law, functions = _little_law(key)

    def loss(f, x, y):
        return (f[x] != y).astype(float)

    rows, chance = law.samples(n)

    @jax.jit
    def measure(law, functions):
        def of_sample(row):
            data = Dataset(law.x[row], law.y[row])
            inside = jax.vmap(lambda f: training_loss(loss, f, data))(functions)
            gap = jax.vmap(lambda f: generalisation_gap(loss, f, data, law))(functions)
            return inside, gap, erm(loss, functions[jnp.array([0, 7])], data).index

        inside, gap, index = jax.vmap(of_sample)(rows)
        return inside, gap, index, jax.vmap(lambda f: expected_loss(loss, f, law))(functions)

    inside, gap, index, risk = (np.asarray(a) for a in measure(law, functions))
    chance = np.asarray(chance)
    yield equal("mean training loss of each of eight functions", chance @ inside, risk, rtol=1e-12)
    yield at_most("gap from above", np.maximum(gap, 0), abs(risk - inside), atol=1e-15)
    constant = np.array([0, 7])[index]
    yield control(
        "the function was fixed before the sample: here the minimiser",
        equal(
            "mean training loss",
            chance @ inside[np.arange(len(index)), constant],
            chance @ risk[constant],
            rtol=1e-12,
        ),
    )


@claim(rows=("B08.01",), erratum="The 0-1 loss is printed as 1 where f(x) = y: that counts the labels that are right.")
def zero_one_loss_as_printed(key):
    r"""The 0-1 loss of a function is 1 where it gives the label and 0 elsewhere.

    As printed, $l((x,y),f)=\mathbf 1_{f(x)=y}$: then the function that gives every label has the risk 1, the greatest
    of all functions, and the minimiser of the training loss gives no label at all. With $f(x)\ne y$ its risk is 0.
    """
    law, functions = _little_law(key)
    right = int(np.flatnonzero((np.asarray(functions) == np.asarray(law.y)).all(1))[0])

    @jax.jit
    def measure(law, functions):
        risks = [
            jax.vmap(lambda f, wrong=wrong: expected_loss(lambda f, x, y: (f[x] != y) == wrong, f, law))(functions)
            for wrong in (True, False)
        ]
        return jnp.stack(risks)

    differs, agrees = np.asarray(measure(law, functions))
    yield equal("risk of the function that gives every label", differs[right], 0.0)
    yield at_least("and no function has a smaller one", differs, differs[right])
    yield printed(equal("risk of the function that gives every label, printed", agrees[right], 0.0))
    yield printed(at_least("and no function has a smaller one, printed", agrees, agrees[right]))
