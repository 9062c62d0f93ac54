r"""How far Adam and AdaMax can go in a step, in units of the learning rate: more than one."""

import jax.numpy as jnp

from corollary._validate import real, within
from corollary.catalog import implements


@implements("M18.34")
def adam_step(delta1, delta2, k):
    r"""$\frac{|\hat m_k|}{\sqrt{\hat u_k}}\le\big(\sum_{i\le k}\frac{w_{1,i}^2}{w_{2,i}}\big)^{1/2}$ after $k$
    gradients, $\epsilon=0$, with the normalised weights of the two averages.

    By Cauchy and Schwarz, attained where $g_i\propto(\delta_1/\delta_2)^{k-i}$. With $\delta_1^2<\delta_2$ it tends to
    $\frac{1-\delta_1}{\sqrt{(1-\delta_2)(1-\delta_1^2/\delta_2)}}$, which is 7.27 for 0.9 and 0.999.
    """
    delta1, delta2, k = _decays(delta1, delta2, k)
    q = delta1**2 / delta2
    ratio = (1 - delta1) ** 2 / (1 - delta2) * (1 - q**k) / (1 - q)
    return jnp.sqrt(ratio * (1 - delta2**k)) / (1 - delta1**k)


@implements("M18.36")
def adamax_step(delta1, delta2, k):
    r"""$\frac{|m_k|}{(1-\delta_1^k)u_k}\le\frac{(1-\delta_1)(1-(\delta_1/\delta_2)^k)}{(1-\delta_1/\delta_2)(1-\delta_1^k)}$
    after $k$ gradients, $\delta_1<\delta_2$.

    Attained where $g_i\propto\delta_2^{-(k-i)}$; at most 1.0091 for 0.9 and 0.999.
    """
    delta1, delta2, k = _decays(delta1, delta2, k)
    q = delta1 / delta2
    return (1 - delta1) * (1 - q**k) / ((1 - q) * (1 - delta1**k))


def _decays(delta1, delta2, k):
    delta1, delta2 = real("delta1", delta1, ""), real("delta2", delta2, "")
    within("delta1", delta1, 0.0, 1.0, open="both"), within("delta2", delta2, 0.0, 1.0, open="both")
    within("delta1 over delta2", delta1 / delta2, 0.0, 1.0, open="both")
    return delta1, delta2, within("k", real("k", k), 1.0)
