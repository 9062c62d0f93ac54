"""Which names of its module a definition reads: attribute chains such as `linear.ridge`, with Python's own scoping.

A chain is written `name.attribute...` when its root is a name of the module, `module:attribute...` when it comes from
an import inside the definition, and `?name...` when its root may be a name of the class around it. Annotations are not
followed: they compute nothing.
"""

import ast

Function = ast.FunctionDef | ast.AsyncFunctionDef
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

MAYBE = "?"  # before a chain whose root the module may not have

#: methods that change the object they are called on
_CHANGES = {"add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem"}
_CHANGES |= {"register", "remove", "setdefault", "update"}


class Reader(ast.NodeVisitor):
    """Collects what statements read (`reads`), and the names of the module that they change (`changes`).

    What a `@classmethod` of a class reads stands apart, in `constructors`, under its name: unlike other methods it runs
    only where somebody names it, and all names after a dot are in `attributes`.
    """

    def __init__(self, package: str):
        self.package = package  # against which relative imports are read
        self.reads: set[str] = set()
        self.constructors: dict[str, set[str]] = {}
        self.attributes: set[str] = set()
        self.changes: set[str] = set()
        self.scopes: list[dict[str, str | None]] = []  # name -> where a local import takes it from, None for a value

    def chain(self, node: ast.expr) -> str | None:
        """The chain of a name with attributes; None for what is local or hangs on another expression."""
        attributes = []
        while isinstance(node, ast.Attribute):
            attributes.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        for scope in reversed(self.scopes):
            if node.id in scope:
                source = scope[node.id]
                if source is None:
                    return None
                if source == MAYBE:
                    return MAYBE + ".".join([node.id, *reversed(attributes)])
                start = source if source.endswith(":") or not attributes else source + "."
                return start + ".".join(reversed(attributes))
        return ".".join([node.id, *reversed(attributes)])

    def visit_Name(self, node: ast.Name) -> None:
        found = self.chain(node)
        stored = not isinstance(node.ctx, ast.Load)
        if found is None or (stored and found.startswith(MAYBE)):  # a class body may bind what it likes
            return
        self.reads.add(found)
        if stored and self.scopes:
            self.changes.add(found)  # declared global, for it would be local otherwise

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.attributes |= {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
        found = self.chain(node)
        if found is not None:
            self.reads.add(found)
            if not isinstance(node.ctx, ast.Load):
                self.changes.add(found.rpartition(".")[0] or found)
            return
        root = node
        while isinstance(root, ast.Attribute):
            root = root.value
        if not isinstance(root, ast.Name):
            self.visit(root)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if not isinstance(node.ctx, ast.Load) and (found := self.chain(node.value)) is not None:
            self.changes.add(found)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id == "getattr":
            self.attributes |= {a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)}
        if isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGES:
            changed = node.func.value
            while isinstance(changed, ast.Subscript | ast.Call):  # table[key].append, table.setdefault(key, []).append
                changed = changed.func if isinstance(changed, ast.Call) else changed.value
            if (found := self.chain(changed)) is not None:
                self.changes.add(found)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.target)
        if node.value is not None:
            self.visit(node.value)

    def visit_Import(self, node: ast.Import) -> None:
        """A local import binds a name; its uses are chains. Nothing is read by the statement itself."""

    visit_ImportFrom = visit_Import

    def visit_FunctionDef(self, node: Function) -> None:
        for decorator in node.decorator_list:
            self.visit(decorator)
        self._function(node, node.body)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._function(node, [node.body])

    def _function(self, node: Function | ast.Lambda, body: list) -> None:
        for default in [*node.args.defaults, *node.args.kw_defaults]:
            if default is not None:
                self.visit(default)
        arguments = node.args
        named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        named += [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
        scope = dict.fromkeys((a.arg for a in named), None)
        self.scopes.append(scope | bound(body, self.package))
        for statement in body:
            self.visit(statement)
        self.scopes.pop()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Names of a class body hide those of the module in its statements, from there on, and not in its methods."""
        for part in [*node.decorator_list, *node.bases, *(k.value for k in node.keywords)]:
            self.visit(part)
        own = {name: MAYBE if source is None else source for name, source in bound(node.body, self.package).items()}
        for statement in node.body:
            inner, reads = isinstance(statement, Function), self.reads
            if inner and not self.scopes and any(_is_classmethod(d) for d in statement.decorator_list):
                self.reads = self.constructors.setdefault(statement.name, set())
            self.scopes.append({} if inner else own)
            self.visit(statement)
            self.scopes.pop()
            self.reads = reads

    def _comprehension(self, node) -> None:
        self.visit(node.generators[0].iter)  # in the scope around
        names: dict[str, str | None] = {}
        for generator in node.generators:
            for inner in ast.walk(generator.target):
                if isinstance(inner, ast.Name):
                    names[inner.id] = None
        self.scopes.append(names)
        for i, generator in enumerate(node.generators):
            for part in [generator.target, *([generator.iter] if i else []), *generator.ifs]:
                self.visit(part)
        for part in [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]:
            self.visit(part)
        self.scopes.pop()

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension


def _is_classmethod(decorator: ast.expr) -> bool:
    return isinstance(decorator, ast.Name) and decorator.id == "classmethod"


def bound(body: list, package: str) -> dict[str, str | None]:
    """The names that statements bind in their own scope: None for a value, or where an import takes it from."""
    names: dict[str, str | None] = {}
    elsewhere: set[str] = set()
    open_ = list(body)
    while open_:
        node = open_.pop()
        kind = type(node)
        if kind is ast.Name:  # the commonest first: this runs over every expression of the package
            if type(node.ctx) is not ast.Load:
                names.setdefault(node.id, None)
        elif kind in _SCOPES:
            if kind is not ast.Lambda:
                names.setdefault(node.name, None)
                open_ += node.decorator_list
        elif kind in _COMPREHENSIONS:
            open_ += [n for n in ast.walk(node) if isinstance(n, ast.NamedExpr)]
        elif kind in (ast.Global, ast.Nonlocal):
            elsewhere |= set(node.names)
        elif kind in (ast.Import, ast.ImportFrom):
            names |= {name: f"{module}:{attribute}" for name, module, attribute in imported(node, package)}
        else:
            if kind in (ast.ExceptHandler, ast.MatchStar, ast.MatchAs, ast.MatchMapping):
                name = node.rest if kind is ast.MatchMapping else node.name
                names |= {} if name is None else {name: None}
            for field in kind._fields:
                inner = getattr(node, field, None)
                if type(inner) is list:
                    open_ += [n for n in inner if isinstance(n, ast.AST)]
                elif isinstance(inner, ast.AST) and field not in ("ctx", "op"):
                    open_.append(inner)
    return {name: source for name, source in names.items() if name not in elsewhere}


def imported(node: ast.Import | ast.ImportFrom, package: str) -> list[tuple[str, str, str]]:
    """What an import binds: (name, module, attribute or chain of them in it, "" for the module itself)."""
    if isinstance(node, ast.Import):
        found = []
        for alias in node.names:  # `import a.b as c` looks b up in a, as `from a import b as c` does
            top, _, rest = alias.name.partition(".")
            found.append((alias.asname, top, rest) if alias.asname else (top, top, ""))
        return found
    module = node.module or ""
    if node.level:
        parents = package.split(".")
        base = ".".join(parents[: len(parents) - node.level + 1])
        module = f"{base}.{module}" if module else base
    return [(alias.asname or alias.name, module, alias.name) for alias in node.names]
