r"""Kernel regression for use with scikit-learn: ridge, and ridgeless, which is the interpolant of least norm.

$f(x)=\sum_i\alpha_iK(x,x_i)$ with $\alpha=(G+\rho I)^{-1}y$, $G_{ij}=K(x_i,x_j)$; for $\rho=0$, $\alpha=G^+y$: of all
functions of least squared error in the space of the kernel the one of least norm $\sqrt{\alpha^\top G\alpha}$.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float
from sklearn.base import BaseEstimator, ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from corollary._types import Scalar
from corollary._validate import concrete, real, within
from corollary.catalog import implements
from corollary.kernels.analytic import nngp, ntk
from corollary.kernels.functions import (
    ArcCosineKernel,
    GaussianKernel,
    LaplaceKernel,
    LinearKernel,
    PolynomialKernel,
)
from corollary.kernels.gram import gram
from corollary.kernels.tiles import tiled

POINTWISE = {
    "linear": LinearKernel,
    "polynomial": PolynomialKernel,
    "gaussian": GaussianKernel,
    "laplace": LaplaceKernel,
    "arccosine": ArcCosineKernel,
}
NETWORKS = {"ntk": ntk, "nngp": nngp}
# rows of a block of kernel values: blocks of this many points against all of the others fit into any memory
BLOCK = 256


@implements("B07.04", "T03.14")
def kernel_coefficients(
    g: Float[ArrayLike, "n n"], y: Float[ArrayLike, "..."], ridge: Scalar = 0.0
) -> Float[Array, "..."]:
    r"""$\alpha=(G+\rho I)^{-1}y$ for a symmetric semidefinite `g`; for `ridge` 0, $G^+y$. `y` is (n,) or (n, k).

    By Cholesky's factor where there is a ridge for certain; without one, or where it is traced, by eigenvalues, those
    below the rounding error of the largest counting as zero.
    """
    dims = {}
    g, y = real("g", g, "n n", dims), real("y", y)
    if y.ndim not in (1, 2):
        raise ValueError(f"y must have shape (n,) or (n, k), got {y.shape}.")
    y = real("y", y, "n" if y.ndim == 1 else "n k", dims).astype(g.dtype)
    real("ridge", ridge, "")
    within("ridge", ridge, 0.0)
    return _coefficients(g, y, jnp.asarray(ridge, g.dtype), concrete(ridge) and float(ridge) > 0)


@partial(jax.jit, static_argnums=3)
def _coefficients(g, y, ridge, ridged):
    n = g.shape[0]
    if ridged:
        factor = jax.scipy.linalg.cho_factor(g + ridge * jnp.eye(n, dtype=g.dtype), lower=True)
        return jax.scipy.linalg.cho_solve(factor, y)
    values, vectors = jnp.linalg.eigh((g + g.T) / 2)
    values = jnp.where(values > n * jnp.finfo(g.dtype).eps * values[-1], values, 0) + ridge
    inverse = jnp.where(values > 0, 1 / jnp.where(values > 0, values, 1), 0)
    return (vectors * inverse) @ (vectors.T @ y)


@implements("T03.15")
def rkhs_norm(alpha: Float[ArrayLike, "n"], g: Float[ArrayLike, "n n"]) -> Array:
    r"""$\|\sum_i\alpha_iK(x_i,\cdot)\|_K=\sqrt{\alpha^\top G\alpha}$; of the interpolant, $\sqrt{y^\top G^{-1}y}$."""
    dims = {}
    alpha, g = real("alpha", alpha, "n", dims), real("g", g, "n n", dims)
    return jnp.sqrt(jnp.maximum(alpha @ g @ alpha, 0))  # rounding must not make a norm of zero imaginary


class _KernelMachine(BaseEstimator):
    """What both estimators share: the kernel, the coefficients, and values at new points."""

    def __init__(self, kernel="gaussian", *, ridge=0.0, kernel_params=None):
        self.kernel = kernel
        self.ridge = ridge
        self.kernel_params = kernel_params

    def _solve(self, x, targets):
        self._check_ridge()
        with _precision(x):
            g = tiled(_block(self.kernel, self.kernel_params), jnp.asarray(x), tile=1024)
            self.dual_coef_ = np.asarray(kernel_coefficients(g, targets, float(self.ridge)))
        self.X_fit_ = x
        return self

    def _values(self, x):
        check_is_fitted(self)
        x = validate_data(self, x, reset=False, dtype=[np.float64, np.float32])
        with _precision(self.X_fit_):
            block = _block(self.kernel, self.kernel_params)
            return np.asarray(_combined(block, *map(jnp.asarray, (x, self.X_fit_, self.dual_coef_))))

    def _check_ridge(self):
        if not np.isscalar(self.ridge) or isinstance(self.ridge, str | bool) or not np.isfinite(self.ridge):
            raise ValueError(f"ridge must be a finite number, got {self.ridge!r}.")
        if self.ridge < 0:
            raise ValueError(f"ridge must be zero or more, got {self.ridge}.")


@implements("B07.04", "T03.14")
class KernelRegressor(MultiOutputMixin, RegressorMixin, _KernelMachine):
    r"""Kernel regression $f(x)=\sum_i\alpha_iK(x,x_i)$, $\alpha=(G+\rho I)^{-1}y$, as a scikit-learn estimator.

    `kernel` is `"linear"`, `"polynomial"`, `"gaussian"`, `"laplace"`, `"arccosine"`, `"ntk"` or `"nngp"` with
    `kernel_params` as a dictionary (the networks' `depth` is 1 unless given), or a function: of two points, or of two
    sets of points in rows (such as `Architecture.ntk`). `ridge` is $\rho$; 0, the default, gives the interpolant of
    least norm. Computes in the precision of the data. Values at new points take memory for a block of them.

    >>> KernelRegressor("ntk", ridge=1.0).fit(x, y[:, 0]).predict(x).shape
    (4,)
    """

    def fit(self, X: Float[ArrayLike, "n ..."], y: ArrayLike) -> "KernelRegressor":
        """Fit to points in the rows of X and their labels, (n,) or (n, k)."""
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], multi_output=True, y_numeric=True)
        return self._solve(X, np.asarray(y, X.dtype))

    def predict(self, X: Float[ArrayLike, "n ..."]) -> np.ndarray:
        """The values at the rows of X."""
        return self._values(X)


@implements("B07.04", "T09.23")
class KernelClassifier(ClassifierMixin, _KernelMachine):
    """Classification by kernel regression on labels -1 and 1, one against the rest where there are several classes.

    Arguments as for `KernelRegressor`.

    >>> KernelClassifier().fit(x, ["a", "b", "a", "b"]).predict(x[:2]).tolist()
    ['a', 'b']
    """

    def fit(self, X: Float[ArrayLike, "n ..."], y: ArrayLike) -> "KernelClassifier":
        """Fit to points in the rows of X and their classes, which may be anything."""
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32])
        check_classification_targets(y)
        self.classes_, index = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError("Classifier can't train when only one class is present.")
        signs = np.where(index[:, None] == np.arange(len(self.classes_)), 1, -1).astype(X.dtype)
        return self._solve(X, signs[:, 1] if len(self.classes_) == 2 else signs)

    def decision_function(self, X: Float[ArrayLike, "n ..."]) -> np.ndarray:
        """The fitted values: one for two classes (positive for the second), else one for each class."""
        return self._values(X)

    def predict(self, X: Float[ArrayLike, "n ..."]) -> np.ndarray:
        """The class of the largest value."""
        values = self._values(X)
        return self.classes_[(values > 0).astype(int) if values.ndim == 1 else values.argmax(axis=1)]


def _precision(x):
    """The scope in which NumPy's doubles stay doubles; the caller's precision is that of the data."""
    return jax.enable_x64(bool(x.dtype == np.float64))


def _block(kernel, params) -> Callable:
    """The kernel as a function of two sets of points, the same object for the same arguments where they have a hash."""
    params = {} if params is None else params
    if not isinstance(params, dict):
        raise TypeError(f"kernel_params must be a dictionary, got {type(params).__name__}.")
    if isinstance(kernel, str):
        if kernel not in POINTWISE and kernel not in NETWORKS:
            raise ValueError(f"kernel must be one of {', '.join((*POINTWISE, *NETWORKS))}, got {kernel!r}.")
    elif not callable(kernel):
        raise TypeError(f"kernel must be a name or a function, got {type(kernel).__name__}.")
    elif params:
        raise ValueError("kernel_params must be empty for a kernel that is a function.")
    try:
        return _remembered(kernel, tuple(sorted(params.items())))
    except TypeError:  # something without a hash, such as a kernel that holds arrays
        return _made(kernel, params)


def _made(kernel, params):
    if isinstance(kernel, str) and kernel in NETWORKS:
        return partial(NETWORKS[kernel], **{"depth": 1, **params})
    point = POINTWISE[kernel](**params) if isinstance(kernel, str) else kernel
    if isinstance(point, LinearKernel | PolynomialKernel | GaussianKernel):
        return partial(_by_products, point)

    def block(a, b=None):
        if not isinstance(kernel, str) and _of_sets(point, a.shape[1], a.dtype):
            return point(a, a if b is None else b)
        return gram(point, a, b)

    return block


@lru_cache(maxsize=64)
def _remembered(kernel, params):
    return _made(kernel, dict(params))


def _by_products(kernel, a, b=None):
    """All pairs of a kernel that depends on inner products, by one matrix product."""
    other = a if b is None else b
    if not isinstance(kernel, GaussianKernel):
        products = jnp.matmul(a, other.T, precision="highest")
        return (
            products
            if isinstance(kernel, LinearKernel)
            else (products + kernel.offset.astype(a.dtype)) ** kernel.degree
        )
    # distances do not depend on the origin; far from it they would be differences of large numbers
    origin = other.mean(0)
    a, other = a - origin, other - origin
    products = jnp.matmul(a, other.T, precision="highest")
    squares = jnp.maximum(jnp.sum(a * a, 1)[:, None] + jnp.sum(other * other, 1) - 2 * products, 0)
    return jnp.exp(-squares / (2 * kernel.width.astype(a.dtype) ** 2))


def _of_sets(kernel, dim, dtype) -> bool:
    """Whether sets of two different sizes, neither of them the dimension, make a matrix of those sizes."""
    sizes = dim + 1, dim + 2
    try:
        out = jax.eval_shape(kernel, *(jax.ShapeDtypeStruct((n, dim), dtype) for n in sizes))
        return getattr(out, "shape", None) == sizes
    except (TypeError, ValueError):
        return False  # a function of two points, which cannot make anything of sets


@partial(jax.jit, static_argnums=0)
def _combined(block, x, points, alpha):
    """K(x, points) α without the matrix: a block of rows at a time."""
    n = x.shape[0]
    rows = min(BLOCK, n)
    padded = jnp.concatenate([x, jnp.broadcast_to(x[:1], (-n % rows, x.shape[1]))])
    values = jax.lax.map(lambda a: block(a, points) @ alpha, padded.reshape(-1, rows, x.shape[1]))
    return values.reshape(-1, *alpha.shape[1:])[:n]
