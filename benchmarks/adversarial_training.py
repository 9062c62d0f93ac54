"""Training against attacks on MNIST: natural, on sign steps and on projected ascent, each then attacked in four ways.

    python benchmarks/adversarial_training.py              # a GPU: radius .3 in the largest norm, all 10,000 images
    python benchmarks/adversarial_training.py natural FGSM # some of the networks
    python benchmarks/adversarial_training.py --small      # two cores, minutes: radius .1, few images, a short training

A convolutional network is trained three times, the radius growing in three stages: with the last one from the start it
may settle for one class. The table has the accuracy without attack, under the sign step, under projected ascent of
100 steps with 20 restarts in the largest norm, and under one of radius 2 in the Euclidean norm. The bars: trained on
projected ascent at least .98 without attack and .86 under it, in less than 5 minutes of training; a natural network
below .02 under it. Trained on sign steps a network withstands these and not the ascent (T18.09).
"""

import argparse
import json
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.data import mnist
from corollary.nets import fit
from corollary.nets.convolutional import ConvolutionalNetwork, Stage
from corollary.robustness import Ball, adversarial_loss, fgsm, pgd

STAGES = (Stage(32, 5, padding=2, pool=2), Stage(64, 5, padding=2, pool=2))
FEW = (Stage(16, 4, stride=2, padding=1), Stage(32, 4, stride=2, padding=1))
#: Parts of the radius, and the share of the epochs that are trained with each.
RAMP = ((1 / 3, 0.1), (2 / 3, 0.15), (1.0, 0.75))
KINDS = ("natural", "FGSM", "PGD")


def images(split, count=None):
    x, y = mnist(split)
    return jnp.asarray(x[:count, None], jnp.float32) / 255, jnp.asarray(y[:count])


def within(radius, p=np.inf):
    return Ball(p, radius, 0.0, 1.0)


def trained(kind, data, radius, given):
    """A network trained against no attack, the sign step or an ascent; and the seconds with compilation."""
    stages, hidden = (FEW, (100,)) if given.small else (STAGES, (512,))
    network = ConvolutionalNetwork((1, 28, 28), stages, 10, key=jax.random.key(0), hidden=hidden)
    ramp = ((None, 1.0),) if kind == "natural" else [(part * radius, share) for part, share in RAMP]
    epochs = given.epochs if kind == "PGD" else -(-given.epochs // 3)
    steps = epochs * (len(data[1]) // given.batch)
    began = time.perf_counter()
    for number, (size, share) in enumerate(ramp):
        inner = 1 if kind == "FGSM" else given.steps
        loss = "cross_entropy" if size is None else adversarial_loss("cross_entropy", within(size), steps=inner)
        part = max(1, round(share * steps))
        rate = optax.cosine_decay_schedule(1e-3, part) if number == len(ramp) - 1 else 1e-3
        options = {"steps": part, "batch_size": given.batch, "key": jax.random.key(1 + number), "progress": False}
        run = fit(network, loss, data, optax.adam(rate), **options)
        network, last = run.network, float(np.asarray(run.losses)[-50:].mean())
        told = "" if size is None else f", radius {size:.2f}"
        print(f"  {kind}{told}: {part} steps, loss {last:.3f}, {time.perf_counter() - began:.0f} s", flush=True)
    return network, time.perf_counter() - began


def measured(network, test, radius, given):
    """The accuracies of one network, by attack."""
    key, loss, size = jax.random.key(9), "cross_entropy", given.attacked_together
    attacks = {
        "clean": lambda: pgd(network, loss, test, within(0.0), steps=1, batch_size=size),
        "FGSM": lambda: fgsm(network, loss, test, within(radius), batch_size=size),
        "PGD": lambda: pgd(
            network, loss, test, within(radius), steps=given.ascent, restarts=given.restarts, key=key, batch_size=size
        ),
        "Euclidean": lambda: pgd(
            network, loss, test, within(radius * 20 / 3, 2), steps=given.ascent, restarts=2, key=key, batch_size=size
        ),
    }
    found = {}
    for name, attack in attacks.items():
        began = time.perf_counter()
        made = attack()
        found[name] = 1 - float(made.success.mean())
        found[f"{name} seconds"] = round(time.perf_counter() - began, 2)
        found[f"{name} steps without slope"] = float(made.dead.zero.sum() / made.queries.sum())
    return found


def main(given):
    radius = 0.1 if given.small else 0.3
    data, test = images("train", given.train), images("test", given.images)
    print(f"{jax.devices()[0].device_kind}: radius {radius}, {len(test[1]):,} images")
    print(f"ascents of {given.ascent} steps with {given.restarts} restarts; Euclidean radius {radius * 20 / 3:.2f}")
    table = {}
    for kind in given.networks or KINDS:
        network, seconds = trained(kind, data, radius, given)
        table[kind] = {"training seconds": round(seconds, 1), **measured(network, test, radius, given)}
    names = ("clean", "FGSM", "PGD", "Euclidean")
    print("trained on  " + "".join(f"{name:>11}" for name in names) + "   training, s   slopes of zero")
    for kind, row in table.items():
        numbers = "".join(f"{row[name]:11.4f}" for name in names)
        print(f"{kind:12}{numbers}{row['training seconds']:14.1f}{row['PGD steps without slope']:17.4f}")
    print(json.dumps(table))
    return held(table)


def held(table):
    """Whether the bars hold, those of the networks that were asked for."""
    good = True
    if "PGD" in table:
        row = table["PGD"]
        good &= row["clean"] >= 0.98 and row["PGD"] >= 0.86 and row["training seconds"] < 300
    if "natural" in table:
        good &= table["natural"]["PGD"] < 0.02
    if "FGSM" in table:
        good &= table["FGSM"]["PGD"] < table["FGSM"]["FGSM"]
    return good


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", help=f"networks to train, of {', '.join(KINDS)}; all unless given")
    parser.add_argument("--small", action="store_true", help="a small network, a small radius and few images")
    parser.add_argument("--epochs", type=int, default=30, help="of the network trained on an ascent")
    parser.add_argument("--steps", type=int, default=20, help="of the ascent in training")
    parser.set_defaults(batch=256, train=None, images=10_000, ascent=100, restarts=20, attacked_together=2500)
    args = parser.parse_args()
    if unknown := set(args.networks) - set(KINDS):
        parser.error(f"there is no network {', '.join(sorted(unknown))}: choose from {', '.join(KINDS)}.")
    if args.small:
        small = {"batch": 100, "train": 6000, "images": 200, "ascent": 20, "restarts": 2, "attacked_together": 200}
        vars(args).update(small, epochs=6, steps=5)
    good = main(args)
    if not args.small:
        print("all bars are met" if good else "a bar is NOT met")
        raise SystemExit(not good)
