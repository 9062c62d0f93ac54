"""A maximum over points: order does not matter, and few points do."""

from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims._drawn import drawn
from corollary.evidence import Range, Size, at_most, claim, control, equal
from corollary.nets import random_permutations
from corollary.nets.sets import PointNetClassifier, PointNetSegmenter

LOCAL, FEATURES = 6, 10


@claim(rows=("E07.07", "E07.08"))
def critical_points(key, *, points: Size = 64, orders: Annotated[int, Range(2, 1000)] = 6):
    r"""PointNet does not see the order of points, and of a cloud only the critical points.

    The matrices of both T-nets and the features of the whole cloud are maxima over points, so that they and the
    probabilities of classes are order-invariant; local features and the probabilities of parts are equivariant. A
    maximum is attained: at most three times as many points as there are features (one for each of them in every
    maximum) decide about all of it. Replacing every other point by a copy of one of these changes nothing; replacing
    these does. With a sum in place of the maximum, copies count. The T-nets must be counted: the points at which the
    last maximum is attained do not suffice, since they do not fix the matrices.
    """

    cloud_key, model_key, order_key = jax.random.split(key, 3)
    x = np.asarray(jax.random.normal(cloud_key, (points, 3)))
    order = np.asarray(random_permutations(points, orders, key=order_key))

    @jax.jit
    def look(key, clouds):
        class_key, part_key = jax.random.split(key)
        classifier = drawn(lambda k: PointNetClassifier(4, local=LOCAL, features=FEATURES, key=k), class_key, gain=1.4)
        other = drawn(lambda k: PointNetSegmenter(5, local=LOCAL, features=FEATURES, key=k), part_key, gain=1.4)
        segmenter = eqx.tree_at(lambda m: m.features, other, classifier.features)

        def one(x):
            found = classifier.features(x)
            whole = jnp.concatenate([found.whole, found.input_transform.ravel(), found.feature_transform.ravel()])
            return whole, classifier(x), jnp.concatenate([found.local, segmenter(x)], axis=1), found.critical

        return jax.lax.map(one, clouds)

    whole, classes, each, critical = map(np.asarray, look(model_key, np.stack([x, *x[order[1:]]])))
    critical = critical[0]
    kept = np.where(critical[:, None], x, x[np.argmax(critical)])
    removed = np.where(critical[:, None], x[np.argmin(critical)], x)
    # clouds enough for the same program
    changed = np.stack([kept, removed, *[x] * (orders - 2)])
    copied, _, copied_each, _ = map(np.asarray, look(model_key, changed))
    yield equal("matrices and features of the cloud, in any order", whole[1:], whole[0])
    yield equal("probabilities of the classes, in any order", classes[1:], classes[0])
    back = np.take_along_axis(each[1:], np.argsort(order[1:], axis=1)[:, :, None], axis=1)
    yield equal("local features and probabilities of parts move with the points", back, each[0])
    yield at_most("critical points", critical.sum(), 3 * FEATURES)
    yield equal("all other points replaced by a copy of one of these", copied[0], whole[0])
    yield equal("local features of the critical points then", copied_each[0][critical], each[0][critical])
    yield control("these replaced by a copy of another", equal("matrices and features", copied[1], whole[0]))
    sums = each[0, :, :LOCAL].sum(0), copied_each[0, :, :LOCAL].sum(0)
    yield control("a sum in place of the maximum", equal("with the copies", sums[1], sums[0]))
