"""What a claim may leave behind in its process that would change the claims after it.

A worker looks before and after each claim. Names that are new are no leak: rooms are imported when they are first used.
"""

import inspect
import os
import sys
from types import ModuleType

import numpy as np

#: modules of others whose functions claims call; of ours, all that are loaded
OTHERS = ("jax", "jax.numpy", "jax.lax", "jax.nn", "jax.random", "numpy", "numpy.linalg", "equinox", "optax")

#: variables that scikit-learn sets for the threads of others when it is imported
BY_LIBRARIES = ("KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK")


def state() -> dict[str, object]:
    """Everything that can leak, by a name that a sentence can use."""
    import jax

    found = {name: getattr(jax.config, name, None) for name in jax.config.values}
    found |= {f"NumPy's error state ({k})": v for k, v in np.geterr().items()}
    found |= {f"the environment variable {k}": v for k, v in os.environ.items() if k not in BY_LIBRARIES}
    found |= {"the working directory": _directory(), "the recursion limit": sys.getrecursionlimit()}
    found |= {"the search path of modules": tuple(sys.path)}
    for name, module in list(sys.modules.items()):
        if name in OTHERS or name.partition(".")[0] == "corollary":
            found |= {f"{name}.{key}": value for key, value in _functions(module)}
    return found


def leaked(before: dict[str, object], after: dict[str, object], claim_module: str) -> list[str]:
    """The names of what differs, and of functions that the claim put into modules that it loaded."""
    changed = [name for name, value in before.items() if not _same(value, after.get(name))]
    variable = "the environment variable "
    changed += [name for name in after.keys() - before.keys() if name.startswith(variable)]
    planted = [
        name
        for name in after.keys() - before.keys()
        if getattr(after[name], "__module__", None) == claim_module
        and not name.startswith(f"{claim_module}.")
        and not name.startswith("corollary.claims.")
    ]
    return sorted(changed + planted)


def _directory() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return ""


def _functions(module: ModuleType):
    """The functions and classes of a module, and the methods of classes that are defined there.

    A package's table is filled as its names are used, so that of a package only what is its own counts.
    """
    package = hasattr(module, "__path__")
    for name, value in list(vars(module).items()):
        if not (inspect.isroutine(value) or inspect.isclass(value) or hasattr(value, "__wrapped__")):
            continue
        if package and getattr(value, "__module__", None) != module.__name__ and module.__name__ not in OTHERS:
            continue
        yield name, value
        if inspect.isclass(value) and value.__module__ == module.__name__:
            yield from ((f"{name}.{key}", method) for key, method in list(vars(value).items()) if callable(method))


def _same(one: object, other: object) -> bool:
    return one is other or (isinstance(one, str | int | float | bool | tuple | None) and one == other)
