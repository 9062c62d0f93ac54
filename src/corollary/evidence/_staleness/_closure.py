"""What a definition reaches by name: its closure, through imports, packages' tables and registrations.

A unit is a name of a module, `(module, name)`; `(module, "")` are the statements of a module that define nothing, and
`(module, "*")` is all of it. Where a name cannot be followed more is taken than may be needed: evidence may be called
stale without need, but never fresh without reason.
"""

import builtins
import hashlib
from collections.abc import Iterable
from functools import cache

from corollary.evidence._staleness._names import MAYBE
from corollary.evidence._staleness._syntax import MARKS

Unit = tuple[str, str]

#: Passed on the way into a room. It hands on what it gets and can only refuse it: no evidence depends on it.
BOUNDARY = ("corollary._boundary", "corollary._diagnosis")

#: Not followed: they only record where a definition belongs, and know every one of them, or are that boundary.
_MARKS = (
    ("corollary.evidence._claim", "claim"),
    ("corollary.catalog._registry", "implements"),
    ("corollary._boundary", "guarded"),
)

#: What every claim runs through, whatever it names: its float64 scope and its key, and what its checks amount to.
FRAME = (("corollary.evidence._run", "items"), ("corollary.evidence._evidence", "verdict"))


class Closures:
    """The closures of a set of modules, given by their tables."""

    def __init__(self, tables: dict[str, dict]):
        self.tables = tables
        self._below: dict[str, list[str]] = {}  # package -> its direct modules
        for module in tables:
            self._below.setdefault(module.rpartition(".")[0], []).append(module)
        self.edges, self.constructor = cache(self._edges), cache(self._constructor)
        self._effects_seen = cache(self._find_effects)
        self._registered: dict[Unit, set[Unit]] = {}
        self._registered = self._find_registered()
        self.edges.cache_clear()
        self.constructor.cache_clear()

    def closure(self, roots: Iterable[Unit]) -> set[Unit]:
        """Every unit that the roots reach, themselves included.

        A class method of a class that is reached counts where something that is reached names it.
        """
        seen: set[Unit] = set()
        named: set[str] = set()
        waiting: set[tuple[Unit, str]] = set()
        open_ = list(roots)
        while open_:
            unit = open_.pop()
            if unit not in seen:
                seen.add(unit)
                open_ += self.edges(unit)[0] - seen
                record = None if unit[1] == "*" else self._record(unit)
                named.update(record["attributes"] if record else ())
                waiting.update((unit, name) for name in (record["constructors"] if record else ()))
            if not open_:
                ready = {(owner, name) for owner, name in waiting if name in named}
                waiting -= ready
                open_ += set().union(*(self.constructor(*each) for each in ready)) - seen
        return seen

    def version(self, roots: Iterable[Unit]) -> str:
        """Twelve hex digits that change when something that the roots reach changes."""
        total = hashlib.sha256()
        for unit in sorted(self.closure(roots)):
            total.update(f"{unit[0]} {unit[1]} {self._digest(unit)} {self.edges(unit)[1]}\n".encode())
        return total.hexdigest()[:12]

    def behind(self, module: str, chain: list[str]) -> set[Unit]:
        """The units that `module.a.b.c` means."""
        return self._attribute(module, chain, frozenset())[0]

    def _digest(self, unit: Unit) -> str:
        record = self._record(unit)
        return record["digest"] if record else ""

    def _record(self, unit: Unit) -> dict | None:
        table = self.tables[unit[0]]
        return table["names"].get(unit[1]) if unit[1] else table["effects"]

    def _edges(self, unit: Unit) -> tuple[frozenset[Unit], str]:
        """The units that a unit reads, and what it reads of other packages and of data files."""
        module, name = unit
        if name == "*":
            return frozenset(self._everything(module)), ""
        found: set[Unit] = set(self._registered.get(unit, ())) | self._effects_seen(module)
        data = self.tables[module].get("data")
        foreign: set[str] = {f"data={data}"} if data else set()
        record = self._record(unit)
        for chain in record["reads"]:
            units, others = self._resolve(module, chain)
            found |= units
            foreign |= others
        for chain in {chain for reads in record["constructors"].values() for chain in reads}:
            foreign |= self._resolve(module, chain)[1]
        return frozenset(found - {unit, *_MARKS}), " ".join(sorted(foreign))

    def _constructor(self, unit: Unit, name: str) -> frozenset[Unit]:
        """The units that a class method reads."""
        chains = self._record(unit)["constructors"][name]
        found = set().union(*(self._resolve(unit[0], chain)[0] for chain in chains))
        return frozenset(found - {unit, *_MARKS})

    def _everything(self, module: str) -> set[Unit]:
        """A module as a value: all its names, all it imports, and all modules of a package."""
        table = self.tables[module]
        found = {(module, name) for name in table["names"]} | self._effects_seen(module)
        for name in table["imports"]:
            found |= self._attribute(module, [name], frozenset())[0]
        found |= {(other, "*") for other in [*table["stars"], *self._below.get(module, [])] if other in self.tables}
        return found - set(_MARKS)

    def _resolve(self, module: str, chain: str) -> tuple[set[Unit], set[str]]:
        if chain.startswith(MAYBE):
            chain = chain.removeprefix(MAYBE)
            root = chain.partition(".")[0]
            if root not in self.tables[module]["names"] and root not in self.tables[module]["imports"]:
                return set(), set()
        elsewhere, colon, rest = chain.rpartition(":")
        if colon and elsewhere not in self.tables:
            return set(), set()  # another package; the import is part of the definition
        return self._attribute(elsewhere or module, [a for a in rest.split(".") if a], frozenset())

    def _attribute(self, module: str, chain: list[str], seen: frozenset) -> tuple[set[Unit], set[str]]:
        """The units behind `module.a.b.c`, and the imports of other packages on the way."""
        if not chain:
            return {(module, "*")}, set()
        inner = f"{module}.{chain[0]}"
        if (module, chain[0]) in seen:  # a package that imports its own module, or a circle without an end
            return self._attribute(inner, chain[1:], seen) if inner in self.tables else (set(), set())
        seen |= {(module, chain[0])}
        table, (name, *rest) = self.tables[module], chain
        units: set[Unit] = set()
        foreign: set[str] = set()
        if name in table["names"]:
            alias = table["names"][name]["alias"]
            if alias and rest:  # another name for a module, perhaps
                meant = self._attribute(module, [*alias.split("."), *rest], seen)
                if meant[0]:
                    return meant
            units.add((module, name))
        if name in table["imports"]:
            source, attribute = table["imports"][name]
            if source in self.tables:
                further = [*filter(None, attribute.split(".")), *rest]
                more, others = self._attribute(source, further, seen)
                units, foreign = units | more, foreign | others
            else:
                foreign.add(f"{name}={source}:{attribute}")
        if units or foreign or name in table["imports"]:
            return units, foreign
        if inner in self.tables:
            return self._attribute(inner, rest, seen)
        return self._unknown(module, name), set()

    def _unknown(self, module: str, name: str) -> set[Unit]:
        """A name that the table of its module does not have."""
        stars = [s for s in self.tables[module]["stars"] if s in self.tables]
        known = [s for s in stars if name in self.tables[s]["names"] or name in self.tables[s]["imports"]]
        if known:
            return {(s, "*") for s in known}
        if hasattr(builtins, name) or (name.startswith("__") and name.endswith("__")):
            return set()
        return {(module, "*")}  # made in a way that we do not follow, a module's __getattr__ for one

    def _find_effects(self, module: str) -> set[Unit]:
        """The statements that define nothing, of the module and of all that are imported with it."""
        seen, open_ = set(), [module]
        while open_:
            name = open_.pop()
            if name not in seen and name in self.tables:
                seen.add(name)
                open_ += self.tables[name]["uses"]
                open_ += [name.rpartition(".")[0]]
        return {(name, "") for name in seen if self.tables[name]["effects"]}

    def _find_registered(self) -> dict[Unit, set[Unit]]:
        """What an object gets from definitions elsewhere: `@table.add` or `@register` that fills it, when imported."""
        found: dict[Unit, set[Unit]] = {}
        for module, table in self.tables.items():
            records = [*table["names"].items(), *([("", table["effects"])] if table["effects"] else [])]
            for name, record in records:
                for target in self._targets(module, name, record):
                    found.setdefault(target, set()).add((module, name))
        return found

    def _targets(self, module: str, name: str, record: dict) -> set[Unit]:
        """The units that running a definition changes."""
        targets: set[Unit] = set()
        for chain in record["calls"]:
            units, _ = self._resolve(module, chain)
            units -= set(_MARKS)
            for unit in units:
                if unit[1] == "*":
                    continue
                own = self._record(unit)
                if chain.rpartition(".")[2] != unit[1] and record["kind"] != "value":
                    targets.add(unit)  # a method of it decorates the definition
                if own and own.get("hook"):
                    targets.add(unit)  # a base class that hears of its subclasses
                targets |= self._changed(unit)
        if not name:  # outside functions only the statements that define nothing change what is there
            for chain in record["changes"]:
                targets |= self._resolve(module, chain)[0]
        return {t for t in targets if t != (module, name)}

    def _changed(self, unit: Unit) -> set[Unit]:
        """The values of modules that calling a function, or making an object of a class, may change."""
        changed: set[Unit] = set()
        for reached in self.closure([unit]):
            record = None if reached[1] == "*" else self._record(reached)
            if record and record["kind"] != "value":
                for chain in record["changes"]:
                    changed |= self._resolve(reached[0], chain)[0]
        return {c for c in changed if c[1] not in ("*", *MARKS) and self._record(c)["kind"] == "value"}
