"""Finds the calls that reach a DeepGEMM kernel though the tree says that DeepGEMM is not supported.

The tree is interpreted over a few kinds of values (a known constant, unknown, a kernel of DeepGEMM, functions,
classes, instances) with `is_deep_gemm_supported()` fixed to False; a kernel that may still be called is a site. Which
functions are kernels is read off the tree's own wrapper, `vllm/utils/deep_gemm.py`: those that call what the wrapper
took from the package. Who is entered from outside is read off the tree as well:

- a function that others mention is entered through them, with their guards; one that nobody mentions by itself;
- an operator (`direct_register_custom_op`) is entered where `torch.ops.vllm.NAME` is called;
- methods are entered by themselves, but for private ones that their own class calls;
- a class that says of itself that it is not available (`is_supported`, `can_implement`, `_supports_current_device`, …
  answers False, or a tuple that begins so, when DeepGEMM is not supported) is never chosen: its methods do not count.

Only files that mention a kernel, or a function that leads to one, are parsed.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from values import UNKNOWN, Constant, Marker, Scope, assigned_names

WRAPPER = "vllm/utils/deep_gemm.py"
PACKAGES = ("deep_gemm", "vllm.third_party.deep_gemm")
PREDICATE_NAME = "is_deep_gemm_supported"
REGISTER = "direct_register_custom_op"
NO_KERNEL = ("get_", "transform_", "pack_")  # sizes and layouts; who asks for them is decided by tables of backends
GATES = re.compile(r"_?(is|can|supports?)_\w+")
STATIC = ("staticmethod", "classmethod")
PROPERTIES = {"property", "cached_property"}
WORD = re.compile(r"\w+")
DEPTH = 10  # calls followed into each other; the real chains are at most five long
ROUNDS = 4  # callers of callers that are looked for


PREDICATE = Marker("predicate")
MODULE, PACKAGE = Marker("the wrapper"), Marker("the package")


@dataclass(frozen=True)
class Kernel:
    """A function of DeepGEMM, or of the wrapper that calls it."""

    name: str


@dataclass(frozen=True)
class Several:
    items: tuple[Any, ...]


@dataclass(eq=False)
class Function:
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    scope: Scope
    module: Module
    bound: Any = None  # the instance or class that it was taken from

    @property
    def name(self) -> str:
        return getattr(self.node, "name", "<lambda>")


@dataclass(eq=False)
class Class:
    node: ast.ClassDef
    scope: Scope
    module: Module


@dataclass(frozen=True)
class Instance:
    of: Class


Value = Any  # one of the kinds above


@dataclass(eq=False)
class Module:
    path: str
    tree: ast.Module
    lines: list[str]
    scope: Scope = field(default_factory=lambda: Scope({}))


@dataclass(frozen=True, order=True)
class Root:
    """A function or method that is entered from outside."""

    path: str
    name: str  # qualified by its class

    @property
    def is_method(self) -> bool:
        return "." in self.name


@dataclass(frozen=True, order=True)
class Site:
    path: str
    line: int
    function: str
    kernel: str
    root: Root


def join_values(first: Value, second: Value) -> Value:
    """What a name may hold where two paths meet; a name that may hold a kernel holds it."""
    for value in (first, second):
        if isinstance(value, Kernel):
            return value
    if isinstance(first, Several) and isinstance(second, Several) and len(first.items) == len(second.items):
        return Several(tuple(join_values(*pair) for pair in zip(first.items, second.items)))  # noqa: B905
    return first if first == second else UNKNOWN


def join(first: Scope | None, second: Scope | None) -> Scope | None:
    if first is None or second is None:
        return first or second
    names = {
        name: join_values(first.names.get(name, UNKNOWN), second.names.get(name, UNKNOWN))
        for name in {**first.names, **second.names}
    }
    return Scope(names, first.parent)


def truth(value: Value) -> bool | None:
    """True, False, or None where it cannot be known."""
    if isinstance(value, Constant):
        return bool(value.value)
    return None if value is UNKNOWN or isinstance(value, Kernel) else True


def denies(value: Value) -> bool:
    """Whether an answer is no: false, or a tuple that begins so and goes on with the reason."""
    if isinstance(value, Several):
        return bool(value.items) and denies(value.items[0])
    return isinstance(value, Constant) and not value.value


def mentions(node: ast.AST, module: Module) -> set[str]:
    """Every word in a definition, comments and all: enough to tell who need not be looked at."""
    found: set[str] | None = getattr(node, "_mentions", None)
    if found is None:
        first, last = node.lineno, node.end_lineno  # type: ignore[attr-defined]
        found = set(WORD.findall("\n".join(module.lines[first - 1 : last])))
        node._mentions = found  # type: ignore[attr-defined]
    return found


def uses(node: ast.AST, names: set[str]) -> bool:
    """Whether code, not its imports, reads one of the names or an attribute called so."""
    for part in ast.walk(node):
        word = part.id if isinstance(part, ast.Name) else part.attr if isinstance(part, ast.Attribute) else ""
        if word in names:
            return True
    return False


def is_operator(node: ast.expr) -> bool:
    """torch.ops.vllm"""
    inner = node.value if isinstance(node, ast.Attribute) else None
    outer = inner.value if isinstance(inner, ast.Attribute) else None
    names = (getattr(outer, "id", ""), getattr(inner, "attr", ""), getattr(node, "attr", ""))
    return names == ("torch", "ops", "vllm")


class Tree:
    """The package's files, read once; parsed where they have something to say."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.texts = {path.relative_to(root).as_posix(): path.read_bytes() for path in (root / "vllm").rglob("*.py")}
        self.kernels = self.read_kernels()

    def read_kernels(self) -> frozenset[str]:
        """The wrapper's functions that call what it took from the package: names that end in `_impl`."""
        if WRAPPER not in self.texts:
            return frozenset()
        found = set()
        for node in ast.parse(self.texts[WRAPPER]).body:
            calls = [part.func for part in ast.walk(node) if isinstance(part, ast.Call)]
            names = {func.id for func in calls if isinstance(func, ast.Name)}
            reaches = isinstance(node, ast.FunctionDef) and any(name.endswith("_impl") for name in names)
            if reaches and not node.name.startswith(NO_KERNEL):  # type: ignore[attr-defined]
                found.add(node.name)  # type: ignore[attr-defined]
        return frozenset(found)

    def mentioning(self, names: Iterable[str], among: Iterable[str] | None = None) -> list[str]:
        """The files with one of these words, the wrapper aside."""
        wanted = [name.encode() for name in sorted(names)]
        word = re.compile(rb"\b(" + b"|".join(map(re.escape, wanted)) + rb")\b")
        found = []
        for path in sorted(self.texts) if among is None else among:
            text = self.texts[path]
            if path != WRAPPER and any(name in text for name in wanted) and word.search(text):
                found.append(path)
        return found

    def about_deep_gemm(self) -> list[str]:
        return [path for path, text in sorted(self.texts.items()) if b"deep_gemm" in text]


class Machine:
    """Runs a tree's functions over abstract values and notes each kernel that may be called."""

    def __init__(self, tree: Tree, supported: bool) -> None:
        self.files = tree
        self.supported = supported
        self.modules: dict[str, Module | None] = {}
        self.sites: set[Site] = set()
        self.operators: dict[str, Function] = {}
        self.speaking = {WRAPPER, *tree.mentioning({*tree.kernels, PREDICATE_NAME}, tree.about_deep_gemm())}
        self.entry: Root | None = None
        self.module = Module("", ast.Module([], []), [])  # whose code is being run
        self.stack: list[Function] = []
        self.returns: list[list[Value]] = []
        self.escaped: set[int] = set()
        self.entered: set[Root] = set()
        self.recorded: dict[str, list[Value]] | None = None
        self.known: dict[tuple[int, bool], dict[str, Value]] = {}

    # -- modules ------------------------------------------------------------------------------------------------

    def load(self, path: str, anyway: bool = False) -> Module | None:
        """The module at a path of the tree, or None where it has nothing to say about DeepGEMM."""
        if self.modules.get(path) is not None or (path in self.modules and not anyway):
            return self.modules[path]
        self.modules[path] = None
        text = self.files.texts.get(path)
        if text is None or not (anyway or path in self.speaking):
            return None
        module = Module(path, ast.parse(text, path), text.decode().splitlines())
        self.modules[path] = module
        outer = self.entry, self.stack, self.module
        self.entry, self.stack, self.module = None, [], module
        self.block(module.tree.body, module.scope)
        for node in ast.walk(module.tree) if b"global " in text else ():
            if isinstance(node, ast.Global):  # set elsewhere at some other time
                module.scope.names.update((name, UNKNOWN) for name in node.names)
        self.entry, self.stack, self.module = outer
        return module

    def imported(self, module: Module, node: ast.ImportFrom, name: str) -> Value:
        parts = (node.module or "").split(".") if node.module else []
        if node.level:
            parts = module.path.split("/")[: -node.level] + parts
        base = "/".join(parts)
        if ".".join(parts) in PACKAGES:
            return Kernel(name)
        if base + ".py" == WRAPPER and (name in self.files.kernels or name == PREDICATE_NAME):
            return Kernel(name) if name in self.files.kernels else PREDICATE
        if f"{base}/{name}.py" == WRAPPER or ".".join([*parts, name]) in PACKAGES:
            return MODULE if f"{base}/{name}.py" == WRAPPER else PACKAGE
        for path in (base + ".py", base + "/__init__.py"):
            target = self.load(path) if parts[:1] == ["vllm"] else None
            if target is not None:
                return target.scope.get(name)
        return UNKNOWN

    def run_roots(self, module: Module, names: set[str]) -> None:
        """Enter each function and method that may lead to one of these names as its users can: with any arguments."""
        members = list(self.members(module))
        relevant = set(names)
        while fresh := {
            node.name for _, node in members if node.name not in relevant and mentions(node, module) & relevant
        }:
            relevant |= fresh
        for owner, node in members:
            name = node.name if owner is None else f"{owner.node.name}.{node.name}"
            root = Root(module.path, name)
            if mentions(node, module) & relevant and root not in self.entered:
                self.entered.add(root)
                self.entry = root
                self.invoke(Function(node, module.scope, module, None if owner is None else Instance(owner)), {})
        self.entry = None

    @staticmethod
    def members(module: Module) -> Iterator[tuple[Class | None, ast.FunctionDef]]:
        for node in module.tree.body:
            owner = module.scope.get(node.name) if isinstance(node, ast.ClassDef) else None
            for member in node.body if isinstance(node, ast.ClassDef) else [node]:
                if isinstance(member, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    yield owner if isinstance(owner, Class) else None, member  # type: ignore[misc]

    # -- classes ------------------------------------------------------------------------------------------------

    def bases(self, owner: Class) -> list[Class]:
        """The class and its bases, nearest first."""
        found = [owner]
        for base in owner.node.bases:
            inner = base.value if isinstance(base, ast.Subscript) else base
            value = self.value(inner, owner.scope)
            if value is UNKNOWN and isinstance(inner, ast.Name):
                value = self.imported_anyway(owner.module, inner.id)
            found += self.bases(value) if isinstance(value, Class) and value is not owner else []
        return found

    def imported_anyway(self, module: Module, name: str) -> Value:
        """A base class from a file that itself has nothing to say about DeepGEMM."""
        for node in module.tree.body:
            for alias in node.names if isinstance(node, ast.ImportFrom) else ():
                if (alias.asname or alias.name) == name and node.module:
                    parts = (module.path.split("/")[: -node.level] if node.level else []) + node.module.split(".")
                    target = self.load("/".join(parts) + ".py", anyway=True)
                    return target.scope.get(alias.name) if target is not None else UNKNOWN
        return UNKNOWN

    def method(self, owner: Class, name: str) -> Function | None:
        for cls in self.bases(owner):
            for node in cls.node.body:
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
                    return Function(node, cls.scope, cls.module)
        return None

    def is_gated(self, owner: Class) -> bool:
        """Whether the class says of itself that it is not available, and says otherwise where DeepGEMM is supported."""
        names = {node.name for cls in self.bases(owner) for node in cls.node.body if isinstance(node, ast.FunctionDef)}
        for name in sorted(filter(GATES.fullmatch, names)):
            function = self.method(owner, name)
            if function is not None and any(getattr(item, "id", "") in STATIC for item in function.node.decorator_list):
                function.bound = owner
                if denies(self.apart(False, function)) and not denies(self.apart(True, function)):
                    return True
        return False

    def apart(self, supported: bool, function: Function) -> Value:
        """What a function answers, asked beside the run: nothing is noted."""
        before = self.entry, self.supported, self.stack
        self.entry, self.supported, self.stack = None, supported, []
        answer = self.invoke(function, {})
        self.entry, self.supported, self.stack = before
        return answer

    def attribute(self, owner: Class, name: str) -> Value:
        """What `self.NAME` holds: a class, or a value that depends on whether DeepGEMM is supported.

        Anything else may have been set from outside, whatever the class itself assigns.
        """
        for cls in self.bases(owner):
            for node in cls.node.body:
                targets = getattr(node, "targets", [getattr(node, "target", None)])
                if any(getattr(target, "id", "") == name for target in targets) and getattr(node, "value", None):
                    value = self.value(node.value, cls.scope)  # type: ignore[attr-defined]
                    return value if isinstance(value, Class) else UNKNOWN
        here, there = (self.assigned(owner, supported).get(name, UNKNOWN) for supported in (False, True))
        return (there if self.supported else here) if here != there else UNKNOWN

    def assigned(self, owner: Class, supported: bool) -> dict[str, Value]:
        """What the methods of a class assign to its attributes, joined."""
        key = (id(owner.node), supported)
        if key not in self.known:
            self.known[key] = {}
            outer, self.recorded = self.recorded, {}
            for cls in self.bases(owner):
                for node in cls.node.body:
                    if isinstance(node, ast.FunctionDef) and any(self.assigns(part) for part in ast.walk(node)):
                        self.apart(supported, Function(node, cls.scope, cls.module, Instance(owner)))
            seen, self.recorded = self.recorded, outer
            for name, values in seen.items():
                answer = values[0]
                for other in values[1:]:
                    answer = join_values(answer, other)
                self.known[key][name] = answer
        return self.known[key]

    @staticmethod
    def assigns(node: ast.AST) -> bool:
        stored = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        return stored and getattr(node.value, "id", "") == "self"  # type: ignore[attr-defined]

    # -- functions ----------------------------------------------------------------------------------------------

    def invoke(self, function: Function, given: dict[str, Value]) -> Value:
        if len(self.stack) >= DEPTH or any(frame.node is function.node for frame in self.stack):
            return UNKNOWN
        names = {**self.parameters(function), **(self.defaults(function) if self.stack else {}), **given}
        scope = Scope(names, function.scope)
        outer, self.module = self.module, function.module
        self.stack.append(function)
        self.returns.append([])
        if isinstance(function.node, ast.Lambda):
            self.returns[-1].append(self.value(function.node.body, scope))
        elif self.block(function.node.body, scope) is not None:
            self.returns[-1].append(Constant(None))
        self.stack.pop()
        self.module = outer
        results = self.returns.pop()
        answer: Value = results[0] if results else UNKNOWN
        for other in results[1:]:
            answer = join_values(answer, other)
        return answer

    @staticmethod
    def slots(function: Function) -> list[str]:
        args = function.node.args
        return [arg.arg for arg in [*args.posonlyargs, *args.args]]

    def takes_self(self, function: Function) -> bool:
        decorators = {getattr(item, "id", "") for item in getattr(function.node, "decorator_list", [])}
        return function.bound is not None and "staticmethod" not in decorators and bool(self.slots(function))

    def parameters(self, function: Function) -> dict[str, Value]:
        """What a user of a root may pass: anything."""
        args = function.node.args
        every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
        names = {arg.arg: UNKNOWN for arg in every if arg is not None}
        if self.takes_self(function):
            names[self.slots(function)[0]] = function.bound
        return names

    def defaults(self, function: Function) -> dict[str, Value]:
        args = function.node.args
        positional = [*args.posonlyargs, *args.args]
        late = positional[len(positional) - len(args.defaults) :]
        names = [*late, *args.kwonlyargs]
        pairs = zip(names, [*args.defaults, *args.kw_defaults])  # noqa: B905 — Python 3.9 has no strict
        return {arg.arg: self.value(default, function.scope) for arg, default in pairs if default is not None}

    def bind(self, function: Function, node: ast.Call, scope: Scope) -> dict[str, Value]:
        args = function.node.args
        slots = self.slots(function)[1 if self.takes_self(function) else 0 :]
        every = {*slots, *(arg.arg for arg in args.kwonlyargs)}
        given: dict[str, Value] = {}
        spread = False
        for position, item in enumerate(node.args):
            value = self.value(item, scope)
            spread = spread or isinstance(item, ast.Starred)
            if not spread and position < len(slots):
                given[slots[position]] = value
        for keyword in node.keywords:
            value = self.value(keyword.value, scope)
            spread = spread or keyword.arg is None
            if keyword.arg in every:
                given[keyword.arg] = value
        if spread:
            given = {name: given.get(name, UNKNOWN) for name in every}
        return given

    def escape(self, value: Value, node: ast.AST) -> None:
        """A function handed to code that is not followed: from here on anything may call it."""
        if isinstance(value, Kernel):
            self.note(value, node)
        if isinstance(value, Several):
            for item in value.items:
                self.escape(item, node)
        if isinstance(value, Function) and id(value.node) not in self.escaped and self.entry:
            self.escaped.add(id(value.node))
            self.invoke(value, self.parameters(value))

    def note(self, kernel: Kernel, node: ast.AST) -> None:
        if self.entry is None:
            return
        holder = self.stack[-1].name if self.stack else "<module>"
        self.sites.add(Site(self.module.path, node.lineno, holder, kernel.name, self.entry))  # type: ignore[attr-defined]

    # -- statements ---------------------------------------------------------------------------------------------

    def block(self, body: list[ast.stmt], scope: Scope) -> Scope | None:
        """The scope after the statements, or None where no path gets that far."""
        current: Scope | None = scope
        for statement in body:
            if current is None:
                return None
            handler = getattr(self, "do_" + type(statement).__name__, self.do_other)
            after = handler(statement, current)
            if after is not None and after is not scope:
                scope.names = after.names
                after = scope
            current = after
        return current

    def do_other(self, node: ast.stmt, scope: Scope) -> Scope | None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.escape(self.value(child, scope), child)
        for name in assigned_names([node]):
            scope.names[name] = UNKNOWN
        return scope

    def do_Assign(self, node: ast.Assign, scope: Scope) -> Scope:
        value = self.value(node.value, scope)
        for target in node.targets:
            self.store(target, value, scope)
        return scope

    def do_AnnAssign(self, node: ast.AnnAssign, scope: Scope) -> Scope:
        if node.value is not None:
            self.store(node.target, self.value(node.value, scope), scope)
        return scope

    def store(self, target: ast.expr, value: Value, scope: Scope) -> None:
        if isinstance(target, ast.Name):
            scope.names[target.id] = value
            return
        if isinstance(target, ast.Attribute) and isinstance(self.value(target.value, scope), Instance):
            if self.recorded is not None:
                self.recorded.setdefault(target.attr, []).append(value)
            return
        if isinstance(target, ast.Tuple) and isinstance(value, Several) and len(value.items) == len(target.elts):
            for part, item in zip(target.elts, value.items):  # noqa: B905
                self.store(part, item, scope)
            return
        self.escape(value, target)
        for part in ast.walk(target):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                scope.names[part.id] = UNKNOWN

    def do_If(self, node: ast.If, scope: Scope) -> Scope | None:
        known = truth(self.value(node.test, scope))
        taken = self.block(node.body, scope.fork()) if known is not False else None
        other = self.block(node.orelse, scope.fork()) if known is not True else None
        return join(taken, other)

    def do_Assert(self, node: ast.Assert, scope: Scope) -> Scope | None:
        return None if truth(self.value(node.test, scope)) is False else scope

    def do_Return(self, node: ast.Return, scope: Scope) -> None:
        value = self.value(node.value, scope) if node.value is not None else Constant(None)
        if self.returns:
            self.returns[-1].append(value)
        if len(self.stack) == 1:
            self.escape(value, node)

    def do_Raise(self, node: ast.Raise, scope: Scope) -> None:
        self.do_other(node, scope)

    def do_Break(self, _node: ast.stmt, _scope: Scope) -> None:
        return None

    do_Continue = do_Break

    def do_While(self, node: ast.While, scope: Scope) -> Scope | None:
        for name in assigned_names(node.body):
            scope.names[name] = UNKNOWN
        known = truth(self.value(node.test, scope))
        inside = self.block(node.body, scope.fork()) if known is not False else None
        return self.block(node.orelse, join(scope, inside) or scope)

    def do_For(self, node: ast.For, scope: Scope) -> Scope | None:
        self.escape(self.value(node.iter, scope), node.iter)
        for name in assigned_names([*node.body, ast.Expr(node.target)]):
            scope.names[name] = UNKNOWN
        inside = self.block(node.body, scope.fork())
        return self.block(node.orelse, join(scope, inside) or scope)

    do_AsyncFor = do_For

    def do_With(self, node: ast.With, scope: Scope) -> Scope | None:
        for item in node.items:
            self.escape(self.value(item.context_expr, scope), item.context_expr)
            if item.optional_vars is not None:
                self.store(item.optional_vars, UNKNOWN, scope)
        return self.block(node.body, scope)

    do_AsyncWith = do_With

    def do_Try(self, node: ast.Try, scope: Scope) -> Scope | None:
        """Catching DeepGEMM's error is no guard: with VLLM_USE_DEEP_GEMM=0 it must not be called at all."""
        broken = scope.fork()
        for name in assigned_names(node.body):
            broken.names[name] = UNKNOWN
        after = self.block(node.body, scope.fork())
        if after is not None:
            after = self.block(node.orelse, after)
        for handler in node.handlers:
            after = join(after, self.block(handler.body, broken.fork()))
        if not node.finalbody:
            return after
        finished = self.block(node.finalbody, (after or broken).fork())
        return finished if after is not None else None

    do_TryStar = do_Try

    def do_Match(self, node: Any, scope: Scope) -> Scope | None:
        self.escape(self.value(node.subject, scope), node.subject)
        after: Scope | None = scope.fork()
        for case in node.cases:
            inside = scope.fork()
            if case.guard is not None and truth(self.value(case.guard, inside)) is False:
                continue
            after = join(after, self.block(case.body, inside))
        return after

    def do_FunctionDef(self, node: ast.FunctionDef, scope: Scope) -> Scope:
        scope.names[node.name] = Function(node, scope, self.module)
        known = node.name in self.files.kernels or node.name == PREDICATE_NAME
        if known and self.module.path == WRAPPER and not self.stack:
            scope.names[node.name] = PREDICATE if node.name == PREDICATE_NAME else Kernel(node.name)
        return scope

    do_AsyncFunctionDef = do_FunctionDef

    def do_ClassDef(self, node: ast.ClassDef, scope: Scope) -> Scope:
        scope.names[node.name] = Class(node, scope, self.module)
        return scope

    def do_Import(self, node: ast.Import, scope: Scope) -> Scope:
        for alias in node.names:
            value: Value = PACKAGE if alias.name in PACKAGES else UNKNOWN
            if alias.name.replace(".", "/") + ".py" == WRAPPER:
                value = MODULE
            scope.names[alias.asname or alias.name.split(".")[0]] = (
                value if alias.asname or "." not in alias.name else UNKNOWN
            )
        return scope

    def do_ImportFrom(self, node: ast.ImportFrom, scope: Scope) -> Scope:
        for alias in node.names:
            value = self.imported(self.module, node, alias.name)
            scope.names[alias.asname or alias.name] = value
        return scope

    # -- expressions --------------------------------------------------------------------------------------------

    def value(self, node: ast.expr, scope: Scope) -> Value:
        handler = getattr(self, "see_" + type(node).__name__, None)
        if handler is not None:
            return handler(node, scope)
        for child in ast.walk(node):
            if child is not node and isinstance(child, (ast.Call, ast.Name, ast.Attribute, ast.Lambda)):
                self.escape(self.value(child, scope), child)
        return UNKNOWN

    def see_Constant(self, node: ast.Constant, _scope: Scope) -> Value:
        return Constant(node.value)

    def see_Name(self, node: ast.Name, scope: Scope) -> Value:
        return scope.get(node.id)

    def see_NamedExpr(self, node: ast.NamedExpr, scope: Scope) -> Value:
        value = self.value(node.value, scope)
        scope.names[node.target.id] = value
        return value

    def see_Attribute(self, node: ast.Attribute, scope: Scope) -> Value:
        if is_operator(node.value):
            return self.operators.get(node.attr, UNKNOWN)
        holder = self.value(node.value, scope)
        if holder is PACKAGE or (holder is MODULE and node.attr in self.files.kernels):
            return Kernel(node.attr)
        if holder is MODULE:
            module = self.load(WRAPPER)
            return module.scope.get(node.attr) if module is not None else UNKNOWN
        owner = holder.of if isinstance(holder, Instance) else holder
        if not isinstance(owner, Class):
            return UNKNOWN
        function = self.method(owner, node.attr)
        if function is None:
            return self.attribute(owner, node.attr)
        function.bound = holder
        decorators = {getattr(item, "id", getattr(item, "attr", "")) for item in function.node.decorator_list}
        return self.invoke(function, {}) if decorators & PROPERTIES else function

    def see_Subscript(self, node: ast.Subscript, scope: Scope) -> Value:
        holder, key = self.value(node.value, scope), self.value(node.slice, scope)
        if isinstance(holder, Several) and isinstance(key, Constant) and isinstance(key.value, int):
            return holder.items[key.value] if -len(holder.items) <= key.value < len(holder.items) else UNKNOWN
        self.escape(holder, node)
        return UNKNOWN

    def see_Tuple(self, node: ast.Tuple, scope: Scope) -> Value:
        return Several(tuple(self.value(item, scope) for item in node.elts))

    def see_Lambda(self, node: ast.Lambda, scope: Scope) -> Value:
        return Function(node, scope, self.module)

    def see_Starred(self, node: ast.Starred, scope: Scope) -> Value:
        return self.value(node.value, scope)

    def see_UnaryOp(self, node: ast.UnaryOp, scope: Scope) -> Value:
        value = self.value(node.operand, scope)
        known = truth(value)
        return Constant(not known) if isinstance(node.op, ast.Not) and known is not None else UNKNOWN

    def see_BoolOp(self, node: ast.BoolOp, scope: Scope) -> Value:
        """Short circuit: what stands after `False and` or `True or` is not evaluated."""
        stops = isinstance(node.op, ast.Or)
        doubt: Value | None = None
        for operand in node.values:
            value = self.value(operand, scope)
            known = truth(value)
            if known is stops:
                return value if doubt is None else (doubt if isinstance(doubt, Kernel) else Constant(stops))
            if known is None:
                doubt = value if doubt is None else join_values(doubt, value)
        return value if doubt is None else doubt

    def see_IfExp(self, node: ast.IfExp, scope: Scope) -> Value:
        known = truth(self.value(node.test, scope))
        if known is not None:
            return self.value(node.body if known else node.orelse, scope)
        return join_values(self.value(node.body, scope), self.value(node.orelse, scope))

    def see_Compare(self, node: ast.Compare, scope: Scope) -> Value:
        sides = [self.value(part, scope) for part in [node.left, *node.comparators]]
        table = {
            ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Is: operator.is_, ast.IsNot: operator.is_not,
            ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
        }  # fmt: skip
        compare = table.get(type(node.ops[0]))
        left, right = sides[0], sides[1]
        if len(sides) != 2 or compare is None or not isinstance(left, Constant) or not isinstance(right, Constant):
            return UNKNOWN
        try:
            return Constant(compare(left.value, right.value))
        except TypeError:
            return UNKNOWN

    def see_Call(self, node: ast.Call, scope: Scope) -> Value:
        called = self.value(node.func, scope)
        if called is PREDICATE:
            return Constant(self.supported)
        if getattr(node.func, "id", "") == REGISTER and self.entry is None:
            self.register(node, scope)
            return UNKNOWN
        if isinstance(called, Function):
            return self.invoke(called, self.bind(called, node, scope))
        values = [self.value(item, scope) for item in [*node.args, *(word.value for word in node.keywords)]]
        if isinstance(called, Kernel):
            self.note(called, node)
            return UNKNOWN
        if isinstance(called, Class):
            return Instance(called)
        return self.builtin(node, values)

    def register(self, node: ast.Call, scope: Scope) -> None:
        """An operator: from now on `torch.ops.vllm.NAME` is this function."""
        words = {word.arg: word.value for word in node.keywords}
        name = self.value(words.get("op_name", node.args[0] if node.args else ast.Constant(None)), scope)
        function = self.value(words.get("op_func", (node.args + [ast.Constant(None)] * 2)[1]), scope)
        if isinstance(name, Constant) and isinstance(name.value, str) and isinstance(function, Function):
            self.operators[name.value] = function

    def builtin(self, node: ast.Call, values: list[Value]) -> Value:
        """A call of something that is not followed."""
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name == "bool" and values:
            return UNKNOWN if truth(values[0]) is None else Constant(truth(values[0]))
        if name in ("cache", "lru_cache") or (name == "partial" and values and isinstance(values[0], Kernel)):
            return values[0] if values else UNKNOWN
        for value in values:
            self.escape(value, node)
        return UNKNOWN


class Survey:
    """The unguarded sites of a tree. `kernels`: which of DeepGEMM's to look for; all by default."""

    def __init__(self, root: Path, kernels: Iterable[str] | None = None, supported: bool = False) -> None:
        self.tree = Tree(root)
        self.kernels = self.tree.kernels if kernels is None else self.tree.kernels & frozenset(kernels)
        self.machine = Machine(self.tree, supported)

    def run(self) -> list[Site]:
        """Enter what mentions a kernel or leads to one, then leave out who is not entered from outside."""
        names = looked = {*self.kernels}
        for _ in range(ROUNDS):
            among = self.tree.about_deep_gemm() if names == self.kernels else None
            for path in self.tree.mentioning(names, among) if names else ():
                module = self.machine.load(path, anyway=True)
                if module is not None:
                    self.machine.run_roots(module, looked)
            names = self.leading() - looked
            looked = looked | names
        wanted = [site for site in self.machine.sites if site.kernel in self.kernels]
        entered = {root: self.is_entered(root) for root in {site.root for site in wanted}}
        return sorted(site for site in wanted if entered[site.root])

    def calls(self) -> list[str]:
        """The files that mention one of the kernels, and DeepGEMM."""
        return self.tree.mentioning(self.kernels, self.tree.about_deep_gemm()) if self.kernels else []

    def leading(self) -> set[str]:
        """Functions that lead to a kernel, and the operators that are made of them."""
        roots = {site.root for site in self.machine.sites if site.kernel in self.kernels}
        names = {root.name for root in roots if not root.is_method}
        return names | {name for name, function in self.machine.operators.items() if function.name in names}

    def is_entered(self, root: Root) -> bool:
        module = self.machine.modules[root.path]
        assert module is not None
        if not root.is_method:
            return not self.is_mentioned(root.name)
        name, member = root.name.split(".")
        owner = module.scope.get(name)
        if not isinstance(owner, Class):
            return True
        private = member.startswith("_") and not member.startswith("__")
        if private and any(uses(node, {member}) for node in owner.node.body if getattr(node, "name", "") != member):
            return False
        return not self.machine.is_gated(owner)

    def declared(self, site: Site) -> str:
        """A predicate beside the call that says no without DeepGEMM and that somebody asks; "" where there is none.

        Who asks, and whether before this call, is not followed: tables of requirements and arguments of constructors
        lie in between.
        """
        module = self.machine.modules[site.path]
        assert module is not None
        for node in module.tree.body:
            if isinstance(node, ast.FunctionDef) and GATES.fullmatch(node.name) and self.is_mentioned(node.name):
                function = Function(node, module.scope, module)
                answers = [self.machine.apart(supported, function) for supported in (False, True)]
                if denies(answers[0]) and not denies(answers[1]):
                    return node.name
        return ""

    def is_mentioned(self, name: str) -> bool:
        """Whether somebody calls the function, hands it on, or calls the operator that is made of it."""
        names = {name} | {key for key, function in self.machine.operators.items() if function.name == name}
        for path in self.tree.mentioning(names, [path for path, module in self.machine.modules.items() if module]):
            module = self.machine.modules[path]
            for node in module.tree.body if module is not None else ():
                called = node.value if isinstance(node, ast.Expr) else None
                registers = isinstance(called, ast.Call) and getattr(called.func, "id", "") == REGISTER
                if not registers and getattr(node, "name", "") != name and uses(node, names):
                    return True
        return False
