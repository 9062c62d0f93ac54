"""What to do where an explanation shows something wrong: inputs to drop, labels to look at, examples to take out."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from corollary.audit.action import FLATTERED, QUANTITIES, Action, by_hand
from corollary.audit.retrain import promised, retrained
from corollary.audit.sections._alike import SAME, Alike
from corollary.audit.sections._blamed import BELIEVED
from corollary.audit.sections._doubtful import COPIED, LABELS, TORN, Copied, Doubts, Torn, suspects
from corollary.audit.sections._explained import listed
from corollary.audit.sections._importance import SHORTCUT, Importances, shortcut_of

# labels that one person looks at in an afternoon
MOST = 40


def drop_shortcut(subject, numbers: Importances) -> Action:
    """Without the input that counts in training alone."""
    player, _ = shortcut_of(numbers)
    owned = jax.tree.map(lambda owner: np.asarray(owner) == player, numbers.players.owner)
    name = numbers.players.names[player]
    verb = "mask" if name.startswith("row") else "drop"
    return _trained_again(f"{verb} {name}", SHORTCUT, subject, partial(_blanked, owned=owned))


def drop_copies(subject, numbers: Alike) -> Action:
    """Without the columns that repeat another one."""
    columns = [second for _, second in numbers.copies]
    owned = np.isin(np.arange(subject.train[0].shape[1]), columns)
    many = "columns" if len(columns) > 1 else "column"
    what = f"remove the duplicated {many} {listed(columns, names=subject.columns)}"
    return _trained_again(what, SAME, subject, partial(_blanked, owned=owned))


def take_out(subject, numbers: Copied) -> Action:
    """Without the training examples that are test examples."""
    many = "training examples" if len(numbers.train) > 1 else "training example"
    what = f"take {many} {listed(numbers.train)} out: the test data hold copies"
    found = _trained_again(what, COPIED, subject, partial(without, rows=numbers.train))
    return replace(found, note=FLATTERED)


def train_on(subject) -> Action:
    """From where it is; influence speaks of the end of a training."""
    what = "train it further before any training example is blamed"
    return _trained_again(what, BELIEVED, subject, _from_here, quantity="training loss")


def look_at_torn(subject, found: Torn) -> Action:
    """A person must say which label is right; what it promises is measured without these examples."""
    what = f"find out which labels of these training examples of equal inputs are right: {listed(found.rows, MOST)}"
    return _trained_again(what, TORN, subject, partial(without, rows=found.rows), hand=True)


def look_at_labels(subject, numbers: Doubts) -> Action:
    """A person must; what it promises is measured without these examples."""
    rows = suspects(numbers)
    what = f"look at these {min(len(rows), MOST)} labels: {listed(rows, MOST)}"
    return _trained_again(what, LABELS, subject, partial(without, rows=rows), hand=True)


def _trained_again(what, treats, subject, treat, quantity=None, hand=False) -> Action:
    """An action that changes the subject by `treat` and trains it again; what that brings is tried out."""
    quantity = _quantity(subject) if quantity is None else quantity
    effect = promised(treat(subject), quantity, QUANTITIES[quantity](subject), key=jax.random.key(0))

    def apply(subject, *, key):
        return retrained(treat(subject), key=key)

    return Action(what, treats, effect, "short run", by_hand if hand else apply, cost=1.0)


def _quantity(subject) -> str:
    """What is to become better: the test error where there is one."""
    split = "training" if subject.test is None else "test"
    return f"{split} {'loss' if subject.classes is None else 'error'}"


def _blanked(subject, *, owned):
    """The subject with these coordinates of the inputs at their means in all data, so that they say nothing."""

    def blank(mask, a, mean):
        return jnp.where(mask, mean, a).astype(a.dtype)

    means = jax.tree.map(lambda a: jnp.mean(a.astype(float), axis=0), subject.train[0])
    data = {}
    for split in subject.splits:
        x, y = subject.data(split)
        data[split] = jax.tree.map(blank, owned, x, means), y
    return subject.replaced(**data)


def without(subject, *, rows):
    """The subject without these training examples."""
    kept = np.setdiff1d(np.arange(jax.tree.leaves(subject.train)[0].shape[0]), rows)
    return subject.replaced(train=jax.tree.map(lambda a: a[kept], subject.train))


def _from_here(subject):
    return subject.replaced(initial_params=subject.params)
