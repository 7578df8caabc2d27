"""Proves, without importing vLLM, that no mHC call reaches DeepGEMM where DeepGEMM is declared unavailable.

A text search cannot tell a guard from a comment: 0.30 to 0.33 call DeepGEMM under `if use_deep_gemm:`, where that is
`is_deep_gemm_supported() or not use_tilelang_fallback` and the caller has switched the fallback off. So the module is
interpreted over three kinds of values (a known constant, unknown, DeepGEMM's function) with `is_deep_gemm_supported()`
fixed to False: a call of `tf32_hc_prenorm_gemm` that may still run is an unguarded site. A second pass with True
catches the opposite mistake, a patch that switches DeepGEMM off everywhere.

Exit code: 0 good, 1 bad, 125 cannot tell. `patchkit: absent` means that the broadcast pre-block is not there yet.
"""

from __future__ import annotations

import ast
import operator
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from static_repro import run
from values import UNKNOWN, Constant, Marker, Scope, assigned_names

SINK_NAME = "tf32_hc_prenorm_gemm"
PREDICATE_NAME = "is_deep_gemm_supported"
FUNCTION = "mhc_pre_broadcast_tilelang"
HOME = "vllm/model_executor/kernels/mhc"
OLDER_FORM = "vllm/model_executor/layers/mhc.py"
# Where the function is looked for when it is not at HOME: a move must not read as "not there yet".
ELSEWHERE = ("vllm/model_executor/kernels", "vllm/model_executor/layers", "vllm/models")
DEPTH = 12  # calls followed into each other; the real chain is two long


SINK, PREDICATE = Marker("DeepGEMM"), Marker("predicate")


@dataclass(eq=False)
class Function:
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    scope: Scope
    module: Module

    @property
    def name(self) -> str:
        return getattr(self.node, "name", "<lambda>")


Value = Any  # a Marker, a Constant or a Function


@dataclass(eq=False)
class Module:
    path: str
    tree: ast.Module
    scope: Scope = field(default_factory=lambda: Scope({}))


@dataclass(frozen=True, order=True)
class Site:
    path: str
    line: int
    function: str
    root: str


def join_values(first: Value, second: Value) -> Value:
    """What a name may hold where two paths meet; a name that may hold DeepGEMM's function holds it."""
    if SINK in (first, second):
        return SINK
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
    return None if value in (UNKNOWN, SINK) else True


def only_called(tree: ast.Module) -> set[str]:
    """Private names that the module itself calls, and never hands on as a value."""
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    called = {id(func): func.id for func in calls if isinstance(func, ast.Name) and func.id.startswith("_")}
    handed = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in called}
    return set(called.values()) - handed


class Machine:
    """Runs a module's functions over abstract values and notes each call of DeepGEMM that may be reached."""

    def __init__(self, root: Path, supported: bool) -> None:
        self.root = root
        self.supported = supported
        self.modules: dict[str, Module | None] = {}
        self.sites: set[Site] = set()
        self.entry = ""
        self.stack: list[Function] = []
        self.returns: list[list[Value]] = []
        self.escaped: set[int] = set()

    # -- modules ------------------------------------------------------------------------------------------------

    def load(self, path: str) -> Module | None:
        """The module at a path of the tree, or None where it has nothing to say about DeepGEMM."""
        if path in self.modules:
            return self.modules[path]
        self.modules[path] = None
        file = self.root / path
        if not file.is_file():
            return None
        text = file.read_text(encoding="utf-8")
        if SINK_NAME not in text and PREDICATE_NAME not in text:
            return None
        module = Module(path, ast.parse(text, path))
        self.modules[path] = module
        for node in ast.walk(module.tree):
            node._module = module  # type: ignore[attr-defined]
        outer, self.entry = self.entry, ""
        self.block(module.tree.body, module.scope)
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Global):  # set elsewhere at some other time
                module.scope.names.update((name, UNKNOWN) for name in node.names)
        self.entry = outer
        return module

    def imported(self, module: Module, node: ast.ImportFrom, name: str) -> Value:
        if name == SINK_NAME:
            return SINK
        if name == PREDICATE_NAME:
            return PREDICATE
        parts = (node.module or "").split(".") if node.module else []
        if node.level:
            parts = module.path.split("/")[: -node.level] + parts
        if parts[:1] != ["vllm"]:
            return UNKNOWN
        base = "/".join(parts)
        for path in (base + ".py", base + "/__init__.py"):
            target = self.load(path)
            if target is not None:
                return target.scope.get(name)
        return UNKNOWN

    def run_roots(self, module: Module) -> None:
        """Enter the module as its users can: each function and method but private ones only called here."""
        inner = only_called(module.tree)
        for node in module.tree.body:
            members = node.body if isinstance(node, ast.ClassDef) else [node]
            for member in members:
                if not isinstance(member, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    continue
                if member is node and member.name in inner:
                    continue
                self.entry = member.name
                self.invoke(Function(member, module.scope, module), {})
        self.entry = ""

    # -- functions ----------------------------------------------------------------------------------------------

    def invoke(self, function: Function, given: dict[str, Value]) -> Value:
        if len(self.stack) >= DEPTH or any(frame.node is function.node for frame in self.stack):
            return UNKNOWN
        names = {**self.parameters(function), **(self.defaults(function) if self.stack else {}), **given}
        scope = Scope(names, function.scope)
        self.stack.append(function)
        self.returns.append([])
        if isinstance(function.node, ast.Lambda):
            self.returns[-1].append(self.value(function.node.body, scope))
        elif self.block(function.node.body, scope) is not None:
            self.returns[-1].append(Constant(None))
        self.stack.pop()
        results = self.returns.pop()
        answer: Value = results[0] if results else UNKNOWN
        for other in results[1:]:
            answer = join_values(answer, other)
        return answer

    @staticmethod
    def parameters(function: Function) -> dict[str, Value]:
        """What a user of a root may pass: anything."""
        args = function.node.args
        every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
        return {arg.arg: UNKNOWN for arg in every if arg is not None}

    def defaults(self, function: Function) -> dict[str, Value]:
        args = function.node.args
        positional = [*args.posonlyargs, *args.args]
        late = positional[len(positional) - len(args.defaults) :]
        names = [*late, *args.kwonlyargs]
        pairs = zip(names, [*args.defaults, *args.kw_defaults])  # noqa: B905 — Python 3.9 has no strict
        return {arg.arg: self.value(default, function.scope) for arg, default in pairs if default is not None}

    def bind(self, function: Function, node: ast.Call, scope: Scope) -> dict[str, Value]:
        args = function.node.args
        slots = [arg.arg for arg in [*args.posonlyargs, *args.args]]
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
        if value is SINK:
            self.note(node)
        if isinstance(value, Function) and id(value.node) not in self.escaped and self.entry:
            self.escaped.add(id(value.node))
            self.invoke(value, self.parameters(value))

    def note(self, node: ast.AST) -> None:
        if not self.entry:
            return
        holder = self.stack[-1].name if self.stack else "<module>"
        self.sites.add(Site(node._module.path, node.lineno, holder, self.entry))  # type: ignore[attr-defined]

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
        known = {SINK_NAME: SINK, PREDICATE_NAME: PREDICATE}
        function = Function(node, scope, node._module)  # type: ignore[attr-defined]
        scope.names[node.name] = known.get(node.name, function)
        return scope

    do_AsyncFunctionDef = do_FunctionDef

    def do_ClassDef(self, node: ast.ClassDef, scope: Scope) -> Scope:
        scope.names[node.name] = UNKNOWN
        return scope

    def do_Import(self, node: ast.Import, scope: Scope) -> Scope:
        for alias in node.names:
            scope.names[alias.asname or alias.name.split(".")[0]] = UNKNOWN
        return scope

    def do_ImportFrom(self, node: ast.ImportFrom, scope: Scope) -> Scope:
        for alias in node.names:
            value = self.imported(node._module, node, alias.name)  # type: ignore[attr-defined]
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
        self.value(node.value, scope)
        return {SINK_NAME: SINK, PREDICATE_NAME: PREDICATE}.get(node.attr, UNKNOWN)

    def see_Lambda(self, node: ast.Lambda, scope: Scope) -> Value:
        return Function(node, scope, node._module)  # type: ignore[attr-defined]

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
                return value if doubt is None else (doubt if doubt is SINK else Constant(stops))
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
        if isinstance(called, Function):
            return self.invoke(called, self.bind(called, node, scope))
        values = [self.value(item, scope) for item in [*node.args, *(word.value for word in node.keywords)]]
        if called is SINK:
            self.note(node)
            return UNKNOWN
        return self.builtin(node, values)

    def builtin(self, node: ast.Call, values: list[Value]) -> Value:
        """A call of something that is not in the tree's own mHC code."""
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name == "bool" and values:
            return UNKNOWN if truth(values[0]) is None else Constant(truth(values[0]))
        if name == "cache" or (name == "partial" and SINK in values):
            return values[0] if values else UNKNOWN
        if name in ("is_device_capability", "is_device_capability_family"):
            return self.capability(values)
        for value in values:
            self.escape(value, node)
        return UNKNOWN

    def capability(self, values: list[Value]) -> Value:
        """Tests for Hopper and datacenter Blackwell are false where DeepGEMM is not served; others say nothing."""
        number = values[0].value if values and isinstance(values[0], Constant) else None
        if not self.supported and isinstance(number, int) and number // 10 in (9, 10):
            return Constant(False)
        return UNKNOWN


def candidates(root: Path) -> list[str]:
    """Files that define the function, or hold its siblings."""
    home = sorted(path for path in (root / HOME).glob("*.py")) if (root / HOME).is_dir() else []
    files = [path for path in home if SINK_NAME in path.read_text(encoding="utf-8")]
    if not any("def " + FUNCTION in path.read_text(encoding="utf-8") for path in home):
        for folder in ELSEWHERE:
            for path in sorted((root / folder).rglob("*.py")):
                if ("def " + FUNCTION + "(").encode() in path.read_bytes():
                    files.append(path)
    return [path.relative_to(root).as_posix() for path in files]


def defines(module: Module) -> bool:
    return any(getattr(node, "name", None) == FUNCTION for node in module.tree.body)


def survey(root: Path, paths: list[str], supported: bool) -> tuple[set[Site], bool]:
    machine = Machine(root, supported)
    present = False
    for path in paths:
        module = machine.load(path)
        if module is not None:
            present = present or defines(module)
            machine.run_roots(module)
    return machine.sites, present


def describe(site: Site) -> str:
    through = "" if site.root == site.function else f", entered by {site.root}"
    return f"{site.path}:{site.line}: in {site.function}{through}"


def answer(root: Path) -> int:
    paths = candidates(root)
    unguarded, present = survey(root, paths, supported=False)
    if not present:
        older = [OLDER_FORM] if (root / OLDER_FORM).is_file() else []
        for site in sorted(survey(root, paths + older, supported=False)[0]):
            print(f"note: not counted, an older form: {describe(site)}")
        print("patchkit: absent")
        return 0
    for site in sorted(unguarded):
        print(f"{describe(site)}: DeepGEMM call not guarded: it runs when {PREDICATE_NAME}() is False")
    if unguarded:
        return 1
    taken = {site.root for site in survey(root, paths, supported=True)[0]}
    if taken and FUNCTION not in taken:
        print(f"{FUNCTION}: DeepGEMM is not taken even when {PREDICATE_NAME}() is True")
        return 1
    print(f"good: {len(taken)} functions use DeepGEMM, each only when {PREDICATE_NAME}() is True")
    return 0


if __name__ == "__main__":
    sys.exit(run(answer))
