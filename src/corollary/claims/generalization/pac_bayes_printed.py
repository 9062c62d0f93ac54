"""What is printed about PAC-Bayes and is not so: a moment that is infinite, and a table with a term left out."""

from functools import partial
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # its integration loads slowly, so only when a claim runs

from corollary.evidence import at_least, at_most, claim, equal, printed
from corollary.generalization import maurer_seeger, mcallester

#: Table 1: error of the stochastic network on the training data, KL, and the bound, six columns with true labels.
TRAIN = np.array([0.028, 0.027, 0.027, 0.028, 0.029, 0.027])
DIVERGENCE = np.array([5144.0, 5977.0, 5791.0, 6534.0, 8558.0, 7861.0])
PRINTED = np.array([0.161, 0.179, 0.170, 0.186, 0.223, 0.201])
N, DELTA = 55_000, 0.025


@claim(
    rows=("B09.13",),
    erratum="The bound for random labels, 1.352, leaves out the training error, and two others do not follow.",
)
def certificates_of_the_table(key):
    r"""The bounds of Table 1 follow from its training errors and divergences.

    As printed for n = 55,000 and confidence 0.975: the last $a$ with
    $\mathrm{kl}(\hat e\|a)\le\frac1{n-1}(\mathrm{KL}+\ln\frac n\delta)$ gives the columns T-600, T-300², T-600² and
    T-1200² to the digits printed, given that the inputs are rounded; T-1200 and T-600³ do not follow. For random labels
    1.352 is $\sqrt{(\mathrm{KL}+\ln\frac{2\sqrt n}\delta)/(2n)}$ alone: with the training error 0.112 it is 1.464.
    Theorem 70 as printed gives 0.461 to 0.587 for the true labels. The numbers of weights follow from the widths.
    """
    ends = jnp.asarray([-1.0, 1.0])[:, None]  # inputs rounded either way, and the printed value too
    low, high = np.asarray(
        maurer_seeger(N, DIVERGENCE + 0.5 * ends, DELTA, risk=TRAIN + 0.0005 * ends, form="printed").value
    )
    follows = [0, 2, 3, 4]
    yield at_most("least bound that the inputs allow, four columns", low[follows], PRINTED[follows] + 0.0005)
    yield at_least("largest bound that the inputs allow, four columns", high[follows], PRINTED[follows] - 0.0005)
    yield printed(at_least("largest bound that the inputs of T-1200 allow", high[1], PRINTED[1] - 0.0005))
    yield printed(at_most("least bound that the inputs of T-600³ allow", low[5], PRINTED[5] + 0.0005))
    random = mcallester(N, 201_131.0, DELTA, risk=0.112)
    yield equal("random labels: the bound, with its training error", random.value, 1.464, rtol=0, atol=0.001)
    yield equal(
        "random labels: the root alone", random.value - random.terms["training error"], 1.352, rtol=0, atol=5e-4
    )
    yield printed(equal("random labels: the bound", random.value, 1.352, rtol=0, atol=0.001))
    loose = np.asarray(mcallester(N, DIVERGENCE, DELTA, risk=TRAIN, form="printed").value)
    yield equal("Theorem 70, least and largest", [loose.min(), loose.max()], [0.461, 0.587], rtol=0, atol=5e-4)
    widths = [(600,), (1200,), (300, 300), (600, 600), (1200, 1200), (600, 600, 600)]
    counts = [sum(a.size for a in jax.tree.leaves(jax.eval_shape(partial(_weights, w)))) for w in widths]
    yield equal("weights in thousands", counts, 1000 * np.array([471, 943, 326, 832, 2384, 1193]), rtol=0, atol=1000)


def _weights(widths):
    """The arrays of a network from 784 inputs through these widths to one output."""
    sizes = (784, *widths, 1)
    return [(jnp.zeros((a, b)), jnp.zeros(b)) for a, b in pairwise(sizes)]


@claim(rows=("T05.40",), erratum="E exp(z²/2) for a standard normal z is printed as √2; it is infinite.")
def moment_of_a_squared_normal(key):
    r"""For a standard normal z the mean of exp(z²/2) is √2.

    As printed. The integral up to $t$ is $\frac{2t}{\sqrt{2\pi}}$ and grows without end; $\sqrt2$ is the mean of
    $e^{z^2/4}$.
    """
    ends = 2.0 ** np.arange(1, 6)

    def up_to(t, share):
        def integrand(z):
            return np.exp(share * z**2) * scipy.stats.norm.pdf(z)

        return 2 * scipy.integrate.quad(integrand, 0, t, epsabs=1e-13, epsrel=1e-12)[0]

    half, quarter = (np.array([up_to(t, share) for t in ends]) for share in (0.5, 0.25))
    yield equal("mean of exp(z²/4)", quarter[-1], np.sqrt(2))
    yield equal("mean of exp(z²/2) up to t", half, 2 * ends / np.sqrt(2 * np.pi), x=ends, along="t")
    yield printed(at_most("mean of exp(z²/2) up to t, against √2", half, np.sqrt(2), x=ends, along="t"))
