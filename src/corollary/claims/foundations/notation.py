"""Orders of growth: the three examples of the text, with their constants."""

import numpy as np

from corollary.evidence import at_least, at_most, claim, control, rate
from corollary.foundations import growth_ratio


@claim(rows=("B12.17",))
def orders_of_growth(key):
    r"""A polynomial grows as its highest power, from both sides, and a lower power is negligible against it.

    $f=O(g)$ if $|f(n)|<Cg(n)$ for all $n>N$, $f=\Omega(g)$ if $|f(n)|>C'g(n)$ for all $n>N$, and $f=o(g)$ if
    $f(n)/g(n)\to0$. $6n^4-2n^3+5=O(n^4)$ with $C=6$ from $n=2$ on; $3n+4=\Omega(n)$ with $C'=3$; $n^2=o(n^3)$: the
    ratio falls as $\frac1n$. Over $n^3$ the first is below 12 at $n=2$ and not further on.
    """
    n = np.unique(np.geomspace(2, 1e6, 200).round())
    log = np.log10(n)
    quartic = lambda n: 6 * n**4 - 2 * n**3 + 5  # noqa: E731
    ratio = growth_ratio(quartic, lambda n: n**4, n)
    yield at_most("6n^4 - 2n^3 + 5 over n^4", ratio, 6.0, x=log, along="log10 of n")
    above = growth_ratio(lambda n: 3 * n + 4, lambda n: n, n)
    yield at_least("3n + 4 over n", above, 3.0, x=log, along="log10 of n")
    yield rate("n^2 over n^3", n, growth_ratio(lambda n: n**2, lambda n: n**3, n), -1.0, tolerance=1e-9, along="n")
    cubic = growth_ratio(quartic, lambda n: n**3, n)
    yield control(
        "a power that is at least the highest: here the third",
        at_most("6n^4 - 2n^3 + 5 over n^3", cubic, 12.0, x=log, along="log10 of n"),
    )
