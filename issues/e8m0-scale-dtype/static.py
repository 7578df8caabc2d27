"""Follows a block scale through the source of the CUTLASS block-FP8 kernel class, from checkpoint to compiled op.

Finding the word "upcast" somewhere in the file proves nothing: the scale has two names, and a fix for one of them, or
one behind a condition that never holds, leaves the other as it was. So post-load and forward code of the class and its
bases are interpreted on a layer that holds one E8M0 scale, once under each name, down every path of every condition
that cannot be decided. All paths must hand float32 to the op. The same is done with DeepGEMM's kernel class, which must
still be handed E8M0.

Exit code: 0 good, 1 bad, 125 cannot tell. `patchkit: absent` means that there is no such kernel class.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from static_repro import run

PACKAGE = "vllm/model_executor/kernels/linear/scaled_mm"
KERNEL, DEEP_GEMM_KERNEL = "CutlassFp8BlockScaledMMKernel", "DeepGemmFp8BlockScaledMMKernel"
POST_LOAD, FORWARD = "process_weights_after_loading", "apply_weights"
SCALE_NAMES = ("weight_scale_inv", "weight_scale")
E8M0, FLOAT32, LOST = "torch.float8_e8m0fnu", "torch.float32", "unknown"
BITS, SHIFTED = "exponent bits", "exponent bits shifted into place"
PATHS = 256  # conditions fork; the real classes need fewer than 20
KEEPS_DTYPE = (
    "contiguous",
    "clone",
    "detach",
    "t",
    "transpose",
    "cuda",
    "cpu",
    "requires_grad_",
    "squeeze",
    "unsqueeze",
)


@dataclass(eq=False)
class Tensor:
    dtype: str


@dataclass(eq=False)
class Thing:
    """An object of which a few attributes are known."""

    kind: str
    known: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class Function:
    node: ast.FunctionDef
    path: str
    owner: str | None = None  # the class whose body holds it
    bound: Any = None


UNKNOWN = Thing("unknown")


class Stop(Exception):
    """A return, with its value."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class Leave(Exception):
    """A break, or with `again` a continue."""

    def __init__(self, again: bool) -> None:
        super().__init__()
        self.again = again


class Raised(Exception):
    """The path ends in a raise, or goes where this reader cannot follow."""


class Source:
    """The tree's modules, parsed when a name leads there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.parsed: dict[str, dict[str, ast.AST] | None] = {}

    def names(self, path: str) -> dict[str, ast.AST] | None:
        if path not in self.parsed:
            file = self.root / path
            self.parsed[path] = self.read(file) if file.is_file() else None
        return self.parsed[path]

    @staticmethod
    def read(file: Path) -> dict[str, ast.AST]:
        found: dict[str, ast.AST] = {}
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                found[node.name] = node
            elif isinstance(node, ast.ImportFrom):
                found.update((alias.asname or alias.name, node) for alias in node.names)
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                found[node.targets[0].id] = node.value
        return found

    def definition(self, path: str, name: str) -> tuple[str, ast.AST] | None:
        """Where a name of a module is defined, through its imports."""
        for _ in range(5):
            node = (self.names(path) or {}).get(name)
            if not isinstance(node, ast.ImportFrom):
                return (path, node) if node is not None else None
            target = self.target(path, node)
            name = next(alias.name for alias in node.names if (alias.asname or alias.name) == name)
            if target is None:
                return None
            path = target
        return None

    def target(self, path: str, node: ast.ImportFrom) -> str | None:
        parts = (node.module or "").split(".") if node.module else []
        if node.level:
            parts = path.split("/")[: -node.level] + parts
        if parts[:1] != ["vllm"]:
            return None
        base = "/".join(parts)
        return next((item for item in (base + ".py", base + "/__init__.py") if (self.root / item).is_file()), None)

    def ancestry(self, path: str, name: str) -> Iterator[tuple[str, ast.ClassDef]]:
        """A class and its bases, nearest first. The kernels inherit from one class each."""
        found = self.definition(path, name)
        if found is None or not isinstance(found[1], ast.ClassDef):
            return
        yield found[0], found[1]
        for base in found[1].bases:
            inner = base.value if isinstance(base, ast.Subscript) else base
            if isinstance(inner, ast.Name):
                yield from self.ancestry(found[0], inner.id)


class Reader:
    """One walk through the code. Conditions that cannot be decided are taken as `choices` says, the rest as True."""

    def __init__(self, source: Source, kernel: tuple[str, str], choices: list[bool]) -> None:
        self.source = source
        self.kernel = kernel
        self.choices = choices
        self.asked = 0
        self.depth = 0
        self.reached: list[tuple[str, str]] = []  # (where, dtype of the scale) at each compiled op
        self.path = kernel[0]
        self.owner: str | None = None

    # -- methods ------------------------------------------------------------------------------------------------

    def method(self, name: str, after: str | None = None) -> Function | None:
        """The method a call finds, or the next one behind the class `after`."""
        passed = after is None
        for path, node in self.source.ancestry(*self.kernel):
            if passed:
                for item in node.body:
                    if isinstance(item, ast.FunctionDef) and item.name == name:
                        return Function(item, path, node.name, Thing("self"))
            passed = passed or node.name == after
        return None

    def call(self, function: Function, positional: list[Any], named: dict[str, Any]) -> Any:
        if self.depth > 20:
            return UNKNOWN
        args = function.node.args
        slots = [item.arg for item in [*args.posonlyargs, *args.args]]
        values = ([function.bound] if function.bound is not None else []) + positional
        scope = dict.fromkeys([*slots, *(item.arg for item in args.kwonlyargs)], UNKNOWN)
        late = slots[len(slots) - len(args.defaults) :] + [item.arg for item in args.kwonlyargs]
        for name, default in zip(late, [*args.defaults, *args.kw_defaults]):  # noqa: B905 — Python 3.9 has no strict
            if default is not None:
                scope[name] = self.see(default, {})
        scope.update(zip(slots, values))  # noqa: B905
        scope.update(named)
        outer = self.path, self.owner
        self.path, self.owner, self.depth = function.path, function.owner, self.depth + 1
        try:
            self.run(function.node.body, scope)
        except Stop as stop:
            return stop.value
        finally:
            (self.path, self.owner), self.depth = outer, self.depth - 1
        return None

    # -- statements ---------------------------------------------------------------------------------------------

    def run(self, body: list[ast.stmt], scope: dict[str, Any]) -> None:
        for node in body:
            handler = getattr(self, "do_" + type(node).__name__, None)
            if handler is not None:
                handler(node, scope)

    def do_Return(self, node: ast.Return, scope: dict[str, Any]) -> None:
        raise Stop(self.see(node.value, scope) if node.value else None)

    def do_Raise(self, _node: ast.Raise, _scope: dict[str, Any]) -> None:
        raise Raised

    def do_Break(self, _node: ast.Break, _scope: dict[str, Any]) -> None:
        raise Leave(again=False)

    def do_Continue(self, _node: ast.Continue, _scope: dict[str, Any]) -> None:
        raise Leave(again=True)

    def do_Assign(self, node: ast.Assign, scope: dict[str, Any]) -> None:
        value = self.see(node.value, scope)
        for target in node.targets:
            self.store(target, value, scope)

    def do_AnnAssign(self, node: ast.AnnAssign, scope: dict[str, Any]) -> None:
        if node.value is not None:
            self.store(node.target, self.see(node.value, scope), scope)

    def do_Expr(self, node: ast.Expr, scope: dict[str, Any]) -> None:
        self.see(node.value, scope)

    def do_If(self, node: ast.If, scope: dict[str, Any]) -> None:
        self.run(node.body if self.truth(node.test, scope) else node.orelse, scope)

    def do_Assert(self, node: ast.Assert, scope: dict[str, Any]) -> None:
        if self.see(node.test, scope) is False:
            raise Raised

    def do_For(self, node: ast.For, scope: dict[str, Any]) -> None:
        values = self.see(node.iter, scope)
        for value in values if isinstance(values, (tuple, list)) else [UNKNOWN]:
            self.store(node.target, value, scope)
            try:
                self.run(node.body, scope)
            except Leave as leave:
                if not leave.again:
                    return

    def do_With(self, node: ast.With, scope: dict[str, Any]) -> None:
        self.run(node.body, scope)

    def do_Try(self, node: ast.Try, scope: dict[str, Any]) -> None:
        self.run([*node.body, *node.orelse, *node.finalbody], scope)

    def do_ImportFrom(self, node: ast.ImportFrom, scope: dict[str, Any]) -> None:
        for alias in node.names:
            scope[alias.asname or alias.name] = self.imported(node, alias.name)

    def store(self, target: ast.expr, value: Any, scope: dict[str, Any]) -> None:
        if isinstance(target, ast.Name):
            scope[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            whole = isinstance(value, (tuple, list)) and len(value) == len(target.elts)
            for position, item in enumerate(target.elts):
                self.store(item, value[position] if whole else UNKNOWN, scope)
        elif isinstance(target, ast.Attribute):
            self.write(self.see(target.value, scope), target.attr, value)

    @staticmethod
    def write(holder: Any, name: Any, value: Any) -> None:
        if isinstance(holder, Tensor) and name == "data":
            holder.dtype = value.dtype if isinstance(value, Tensor) else LOST
        elif isinstance(holder, Thing) and holder is not UNKNOWN:
            if isinstance(name, str):
                holder.known[name] = value
            else:  # whichever scale it is, it is not known any more
                holder.known.update((item, UNKNOWN) for item in SCALE_NAMES if item in holder.known)

    def truth(self, node: ast.expr, scope: dict[str, Any]) -> bool:
        if isinstance(node, ast.BoolOp):
            stops = isinstance(node.op, ast.Or)
            return next((stops for part in node.values if self.truth(part, scope) is stops), not stops)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return not self.truth(node.operand, scope)
        value = self.see(node, scope)
        if isinstance(value, Tensor) or value is UNKNOWN:
            self.asked += 1
            if self.asked > len(self.choices):
                self.choices.append(True)
            return self.choices[self.asked - 1]
        return bool(value)

    # -- expressions --------------------------------------------------------------------------------------------

    def see(self, node: ast.AST | None, scope: dict[str, Any]) -> Any:
        handler = getattr(self, "see_" + type(node).__name__, None)
        if handler is not None:
            return handler(node, scope)
        for child in ast.iter_child_nodes(node) if node is not None else ():
            if isinstance(child, ast.expr):
                self.see(child, scope)
        return UNKNOWN

    def see_Constant(self, node: ast.Constant, _scope: dict[str, Any]) -> Any:
        return node.value

    def see_Tuple(self, node: ast.Tuple, scope: dict[str, Any]) -> Any:
        return tuple(self.see(item, scope) for item in node.elts)

    def see_List(self, node: ast.List, scope: dict[str, Any]) -> Any:
        return [self.see(item, scope) for item in node.elts]

    def see_Name(self, node: ast.Name, scope: dict[str, Any]) -> Any:
        if node.id in scope:
            return scope[node.id]
        found = self.source.definition(self.path, node.id)
        return self.defined(*found) if found else UNKNOWN

    def imported(self, node: ast.ImportFrom, name: str) -> Any:
        target = self.source.target(self.path, node)
        found = self.source.definition(target, name) if target else None
        return self.defined(*found) if found else UNKNOWN

    def defined(self, path: str, node: ast.AST) -> Any:
        if isinstance(node, ast.FunctionDef):
            return Function(node, path)
        return self.see(node, {}) if isinstance(node, (ast.Constant, ast.Tuple, ast.List)) else UNKNOWN

    def see_IfExp(self, node: ast.IfExp, scope: dict[str, Any]) -> Any:
        return self.see(node.body if self.truth(node.test, scope) else node.orelse, scope)

    def see_BoolOp(self, node: ast.BoolOp, scope: dict[str, Any]) -> Any:
        return self.truth(node, scope)

    def see_NamedExpr(self, node: ast.NamedExpr, scope: dict[str, Any]) -> Any:
        scope[node.target.id] = self.see(node.value, scope)
        return scope[node.target.id]

    def see_UnaryOp(self, node: ast.UnaryOp, scope: dict[str, Any]) -> Any:
        return self.truth(node, scope) if isinstance(node.op, ast.Not) else UNKNOWN

    def see_BinOp(self, node: ast.BinOp, scope: dict[str, Any]) -> Any:
        left, right = self.see(node.left, scope), self.see(node.right, scope)
        if isinstance(left, Tensor):
            moved = left.dtype == BITS and isinstance(node.op, ast.LShift) and right == 23
            return Tensor(SHIFTED if moved else LOST)
        return UNKNOWN

    def see_Compare(self, node: ast.Compare, scope: dict[str, Any]) -> Any:
        left, right = self.see(node.left, scope), self.see(node.comparators[0], scope)
        operation, several = node.ops[0], len(node.ops) > 1
        if several or UNKNOWN in (left, right) or (isinstance(right, (tuple, list)) and UNKNOWN in right):
            return UNKNOWN
        if isinstance(operation, (ast.In, ast.NotIn)) and isinstance(right, (tuple, list)):
            return (left in right) is isinstance(operation, ast.In)
        if isinstance(operation, (ast.Eq, ast.NotEq, ast.Is, ast.IsNot)):
            return (left == right) is isinstance(operation, (ast.Eq, ast.Is))
        return UNKNOWN

    def see_Attribute(self, node: ast.Attribute, scope: dict[str, Any]) -> Any:
        if isinstance(node.value, ast.Name) and node.value.id == "torch":
            return "torch." + node.attr
        return self.attribute(self.see(node.value, scope), node.attr)

    def attribute(self, holder: Any, name: str) -> Any:
        if isinstance(holder, Tensor):
            if name == "dtype":
                return UNKNOWN if holder.dtype == LOST else holder.dtype
            return holder if name == "data" else (Tensor(holder.dtype) if name in ("T", "mT") else UNKNOWN)
        if not isinstance(holder, Thing):
            return UNKNOWN
        if holder.kind == "params":
            if name in ("WEIGHT_SCALE", "WEIGHT_SCALE_INV", "WEIGHT"):
                return name.lower()
            present = next(item for item in SCALE_NAMES if holder.known[item] is not None)
            named = {"block_scale_attr": present, "block_scale": holder.known[present]}
            return named.get(name, holder.known.get(name, UNKNOWN))
        return holder.known.get(name, UNKNOWN)

    # -- calls --------------------------------------------------------------------------------------------------

    def see_Call(self, node: ast.Call, scope: dict[str, Any]) -> Any:
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        positional = [self.see(item, scope) for item in node.args]
        named = {word.arg: self.see(word.value, scope) for word in node.keywords if word.arg}
        if isinstance(node.func, ast.Attribute):
            known = self.member(node, name, scope, positional, named)
        else:
            known = self.builtin(name, positional, named)
        if known is not None:
            return known[0]
        function = self.see(node.func, scope)
        return self.call(function, positional, named) if isinstance(function, Function) else UNKNOWN

    @staticmethod
    def looked_up(name: str, holder: Thing, key: Any, *default: Any) -> Any:
        """A layer's attribute by name; the scale it does not have is None here, and absent there."""
        found = holder.known.get(key, UNKNOWN) if isinstance(key, str) else UNKNOWN
        if name == "hasattr":
            return UNKNOWN if found is UNKNOWN else found is not None
        return default[0] if found is None and default else found

    def builtin(self, name: str, positional: list[Any], named: dict[str, Any]) -> tuple[Any] | None:
        """Functions known by their name; a one-tuple, so that None can be an answer."""
        if name in ("getattr", "hasattr") and len(positional) > 1 and isinstance(positional[0], Thing):
            return (self.looked_up(name, *positional),)
        if name in ("replace_parameter", "setattr") and positional:
            value = positional[2] if len(positional) > 2 else named.get("new_tensor", named.get("new", UNKNOWN))
            self.write(positional[0], positional[1] if len(positional) > 1 else UNKNOWN, value)
            return (None,)
        if name == "_upcast_e8m0_to_fp32":
            given = positional[0] if positional else UNKNOWN
            exact = isinstance(given, Tensor) and given.dtype in (E8M0, BITS)
            return (Tensor(FLOAT32 if exact else LOST),)
        if name == "deepgemm_post_process_fp8_weight_block":
            self.arrive("DeepGEMM", named.get("ws", positional[1] if len(positional) > 1 else UNKNOWN))
            return ((UNKNOWN, UNKNOWN),)
        return (positional[0],) if name == "Parameter" and positional else None

    def member(
        self, node: ast.Call, name: str, scope: dict[str, Any], positional: list[Any], named: dict[str, Any]
    ) -> tuple[Any] | None:
        assert isinstance(node.func, ast.Attribute)
        inner = node.func.value
        if name == "padded_cutlass" or (name == "cutlass_scaled_mm" and "scale_b" in named):
            self.arrive(f"{self.path}:{node.lineno}", named.get("scale_b", (positional + [UNKNOWN] * 4)[3]))
            return (UNKNOWN,)
        if isinstance(inner, ast.Call) and getattr(inner.func, "id", "") == "super":
            function = self.method(name, after=self.owner)
            return (self.call(function, positional, named) if function else UNKNOWN,)
        holder = self.see(inner, scope)
        if isinstance(holder, Tensor):
            return (self.converted(holder, name, [*positional, *named.values()]),)
        if isinstance(holder, Thing) and holder.kind in ("layer", "self"):
            return self.own(holder, name, positional, named)
        return self.builtin(name, positional, named) or (False if name == "is_fp8_fnuz" else UNKNOWN,)

    def own(self, holder: Thing, name: str, positional: list[Any], named: dict[str, Any]) -> tuple[Any] | None:
        """A call of a method of the layer or of the kernel object itself."""
        if holder.kind == "layer":
            if name == "register_parameter":
                self.write(holder, *positional[:2])
            return (UNKNOWN,)
        if name == "_get_layer_params" and positional and isinstance(positional[0], Thing):
            return (Thing("params", dict(positional[0].known)),)
        function = self.method(name)
        return (self.call(function, positional, named),) if function else None

    @staticmethod
    def converted(tensor: Tensor, name: str, given: list[Any]) -> Tensor:
        kind = next((item for item in given if isinstance(item, str) and item.startswith("torch.")), "")
        if name == "float" or (name in ("to", "type") and kind == FLOAT32):
            return Tensor(tensor.dtype if tensor.dtype == FLOAT32 else FLOAT32 if tensor.dtype == E8M0 else LOST)
        if name == "view" and kind:
            turned = {(E8M0, "torch.uint8"): BITS, (BITS, E8M0): E8M0, (E8M0, E8M0): E8M0, (SHIFTED, FLOAT32): FLOAT32}
            return Tensor(turned.get((tensor.dtype, kind), LOST))
        if name == "to" and kind.startswith("torch.int") and tensor.dtype == BITS:
            return Tensor(BITS)
        return Tensor(tensor.dtype if name in KEEPS_DTYPE or not kind else LOST)

    def arrive(self, where: str, value: Any) -> None:
        self.reached.append((where, value.dtype if isinstance(value, Tensor) else LOST))


def walk(source: Source, kernel: tuple[str, str], scale: str, forward: bool) -> list[tuple[str, str]]:
    """What reaches the compiled op on every path, for a layer with one E8M0 scale."""
    reached: list[tuple[str, str]] = []
    choices: list[bool] = []
    for _ in range(PATHS):
        layer = Thing("layer", dict.fromkeys(SCALE_NAMES))
        layer.known.update({scale: Tensor(E8M0), "weight": Tensor("torch.float8_e4m3fn")})
        reader = Reader(source, kernel, choices)
        try:
            for name in (POST_LOAD, FORWARD)[: 2 if forward else 1]:
                method = reader.method(name)
                if method is not None:
                    reader.call(method, [layer, UNKNOWN] if name == FORWARD else [layer], {})
        except Raised:
            pass
        reached += reader.reached
        del choices[reader.asked :]
        while choices and not choices[-1]:
            choices.pop()
        if not choices:
            return reached
        choices[-1] = False
    return [*reached, ("more paths than were walked", LOST)]


def refuses(source: Source, path: str) -> bool:
    """The other way to fix this: the kernel says beforehand that it does not take E8M0."""
    for _, node in source.ancestry(path, KERNEL):
        for item in node.body:
            if getattr(item, "name", "") in ("can_implement", "is_supported") and "e8m0" in ast.dump(item).lower():
                return True
    return False


def answer(root: Path) -> int:
    source = Source(root)
    path = f"{PACKAGE}/cutlass.py"
    if not isinstance((source.names(path) or {}).get(KERNEL), ast.ClassDef):
        print("patchkit: absent")
        return 0
    bad, lost = set(), set()
    for scale in SCALE_NAMES:
        reached = walk(source, (path, KERNEL), scale, forward=True) or [("the compiled op", LOST)]
        bad |= {
            f"{where}: an E8M0 {scale} reaches the op, which takes float32" for where, kind in reached if kind == E8M0
        }
        lost |= {
            f"{where}: what becomes of {scale} is not clear" for where, kind in reached if kind not in (E8M0, FLOAT32)
        }
        packed = walk(source, (f"{PACKAGE}/deep_gemm.py", DEEP_GEMM_KERNEL), scale, forward=False)
        wrong = any(kind == FLOAT32 for _, kind in packed)
        bad |= {f"{DEEP_GEMM_KERNEL}: {scale} is upcast, DeepGEMM packs E8M0 scales itself"} if wrong else set()
    if (bad or lost) and refuses(source, path):
        print(f"cannot tell: {KERNEL} looks at E8M0 when it is chosen; that is not followed here")
        return 125
    for line in sorted(bad or lost):
        print(line if bad else f"cannot tell: {line}")
    if not bad and not lost:
        print("good: on every path the op is handed float32 scales, and DeepGEMM's kernel E8M0 ones")
    return 1 if bad else 125 if lost else 0


if __name__ == "__main__":
    sys.exit(run(answer))
