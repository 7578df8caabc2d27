"""Lists a tree's custom ops that write into an argument which their registration does not declare as mutated.

torch.compile believes the declaration: a write that is not declared may be dropped, moved or done twice, without any
error, and the eager model is right. So `mutates_args=()` is only right for an op that writes into nothing.

Read are the registrations `direct_register_custom_op`, `torch.library.custom_op`, `define` with `impl`, vLLM's
`register_kernel` of Helion, and the body of the function behind each: in-place methods, `out=`, assignments to an
index, Triton kernels that store, compiled ops whose schema (in csrc) has a `!`, and calls of functions of the tree that
do any of this, a few levels down. What is
reported is certain to write when its line runs; whether a condition lets it run is for a person to review. What a
body does through an object (`self.impl(...)`) is not seen.

    python scan.py TREE [PACKAGE]      one line an op; exit code 0 none found, 1 some found, 125 nothing to read

As the repro of an issue it reads PATCHKIT_TREE. Standard library only.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

# Writes that a person looked at: really not declared, and harmless to torch.compile as the tree stands (README.md).
REVIEWED = {
    ("sparse_attn_indexer", "kv_cache"): "the graph never reads the cache",
    ("rocm_aiter_sparse_attn_indexer", "kv_cache"): "the graph never reads the cache",
    ("cpu_gdn_attention_core", "mixed_qkv"): "nobody reads these rows afterwards",
}
LEVELS = 4  # op → helper → wrapper of a compiled op → the op
# Methods whose result shares memory with the tensor they are called on.
VIEWS = frozenset(
    (
        "view",
        "view_as",
        "reshape",
        "flatten",
        "unflatten",
        "squeeze",
        "unsqueeze",
        "t",
        "transpose",
        "permute",
        "narrow",
        "select",
        "movedim",
        "expand",
        "expand_as",
        "detach",
        "chunk",
        "split",
        "unbind",
        "diagonal",
        "contiguous",
        "swapaxes",
        "as_strided",
        "tensor_split",
        "data",
        "T",
        "mT",
    )
)
NOT_DATA = frozenset({"requires_grad_", "share_memory_", "rename_", "retain_grad_", "set_"})  # leave the values alone
STORES = frozenset({"store", "atomic_add", "atomic_max", "atomic_min", "atomic_xchg", "atomic_cas", "atomic_or"})
# Kernels from outside the tree, by name: the positions of what they write to.
KERNELS = {
    "fp8_einsum": (3,),
    "fp8_gemm_nt": (2,),
    "m_grouped_fp8_gemm_nt_contiguous": (2,),
    "fp8_m_grouped_gemm_nt_masked": (2,),
    "tf32_hc_prenorm_gemm": (2, 3),
}
# Functions of torch that write into their first argument.
WRITERS = frozenset({"all_reduce", "all_reduce_coalesced", "broadcast"})
REGISTER = re.compile(r"direct_register_\w*op")  # vLLM's, and what it is called with a library of its own
DEFINITION = re.compile(r'\bdef\(\s*((?:"(?:[^"\\]|\\.)*"\s*)+)')
SCHEMA = re.compile(r"(?:(\w+)::)?(\w+)(?:\.\w+)?\((.*?)\)\s*->", re.DOTALL)


Flags = frozenset[tuple[str, bool]]


@dataclass(frozen=True)
class Place:
    """A definition of the tree."""

    path: str
    node: ast.FunctionDef


@dataclass(frozen=True)
class Op:
    """A registration: what is declared, and the function that does it."""

    name: str
    path: str
    line: int
    declared: frozenset[str] | None  # None: the registration says "unknown", torch takes all for mutated
    place: Place | None


@dataclass(frozen=True)
class Write:
    """That a parameter is written to, where, and how."""

    parameter: str
    where: str
    how: str


@dataclass
class Module:
    path: str
    tree: ast.Module
    functions: dict[str, ast.FunctionDef] = field(default_factory=dict)
    imports: dict[str, tuple[str, str | None]] = field(default_factory=dict)  # name → module, its name there


def dotted(node: ast.AST) -> str:
    """`a.b.c` of a name or attribute, "" of anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def in_place(method: str) -> bool:
    return method.endswith("_") and not method.endswith("__") and method not in NOT_DATA


def literal(node: ast.AST | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def parameters(node: ast.FunctionDef) -> list[str]:
    every = node.args
    return [one.arg for one in [*every.posonlyargs, *every.args, *every.kwonlyargs]]


def number_like(node: ast.FunctionDef, name: str) -> bool:
    """Whether a parameter is annotated as something that nothing can be written into."""
    for one in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]:
        if one.arg == name and one.annotation is not None:
            return "Tensor" not in ast.unparse(one.annotation)
    return False


class Tree:
    """The package's modules, parsed when something leads there."""

    def __init__(self, root: Path, package: str) -> None:
        self.root, self.package = root, package
        self.modules: dict[str, Module | None] = {}
        self.compiled = dict(self.schemas())
        self.known: dict[tuple[str, int, Flags], list[Write]] = {}
        self.ops: dict[str, Op] = {}

    def schemas(self) -> Iterator[tuple[str, list[tuple[str, bool]]]]:
        """Compiled ops by name: their parameters, and which are written to. Two of one name: what both write to."""
        for file in sorted((self.root / "csrc").rglob("*")):
            if file.suffix in (".cpp", ".cu", ".h", ".hpp"):
                for match in DEFINITION.finditer(file.read_text(encoding="utf-8", errors="replace")):
                    yield from self.schema("".join(re.findall(r'"((?:[^"\\]|\\.)*)"', match[1])))

    @staticmethod
    def schema(text: str) -> Iterator[tuple[str, list[tuple[str, bool]]]]:
        found = SCHEMA.search(text)
        if found:
            given = [part.strip() for part in re.split(r",(?![^\[(]*[\])])", found[3]) if part.strip() not in ("", "*")]
            yield found[2], [(part.split("=")[0].split()[-1], "!" in part) for part in given]

    def module(self, path: str) -> Module | None:
        if path not in self.modules:
            self.modules[path] = self.read(path)
        return self.modules[path]

    def read(self, path: str) -> Module | None:
        try:
            tree = ast.parse((self.root / path).read_text(encoding="utf-8"))
        except (OSError, SyntaxError, UnicodeDecodeError):
            return None
        module = Module(path, tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                module.functions.setdefault(node.name, node)
            elif isinstance(node, ast.ImportFrom):
                base = self.absolute(path, node)
                module.imports.update({item.asname or item.name: (base, item.name) for item in node.names})
            elif isinstance(node, ast.Import):
                module.imports.update({item.asname: (item.name, None) for item in node.names if item.asname})
        return module

    @staticmethod
    def absolute(path: str, node: ast.ImportFrom) -> str:
        parts = path.removesuffix(".py").split("/")[: -node.level] if node.level else []
        return ".".join([*parts, *((node.module or "").split(".") if node.module else [])])

    def file_of(self, module: str) -> str | None:
        base = module.replace(".", "/")
        return next((path for path in (f"{base}.py", f"{base}/__init__.py") if (self.root / path).is_file()), None)

    def resolve(self, module: Module, name: str, hops: int = 4) -> Place | None:
        """The function of the tree that a name in a module means."""
        head, _, rest = name.partition(".")
        if not rest and head in module.functions:
            return Place(module.path, module.functions[head])
        if head not in module.imports or hops == 0:
            return None
        target, imported = module.imports[head]
        candidates = [(f"{target}.{imported}", rest), (target, f"{imported}.{rest}" if rest else imported)]
        for base, inner in candidates if imported else [(target, rest)]:
            path = self.file_of(base) if inner else None
            found = self.module(path) if path else None
            if found is not None and inner:
                return self.resolve(found, inner, hops - 1)
        return None


class Body:
    """One function, read from top to bottom: which names share memory with which parameters, and what is written."""

    def __init__(self, tree: Tree, place: Place, level: int, flags: Flags) -> None:
        self.tree, self.place, self.level, self.flags = tree, place, level, dict(flags)
        self.module = tree.module(place.path)
        self.shares: dict[str, frozenset[str]] = {name: frozenset({name}) for name in parameters(place.node)}
        self.kernels: dict[str, Place] = {}
        self.writes: list[Write] = []

    def read(self) -> list[Write]:
        self.block(self.place.node.body)
        return self.writes

    def note(self, roots: Iterable[str], node: ast.AST, how: str) -> None:
        where = f"{self.place.path}:{getattr(node, 'lineno', 0)}"
        tensors = sorted(root for root in roots if not number_like(self.place.node, root))
        self.writes += [Write(root, where, how) for root in tensors]

    # -- what a value shares memory with ------------------------------------------------------------------------

    def roots(self, node: ast.AST | None) -> frozenset[str]:
        if isinstance(node, ast.Name):
            return self.shares.get(node.id, frozenset())
        if isinstance(node, ast.Attribute):
            return self.roots(node.value) if node.attr in VIEWS else frozenset()
        return frozenset().union(*(self.roots(part) for part in self.parts(node)))

    def parts(self, node: ast.AST | None) -> list[ast.AST]:
        """The expressions whose memory an expression may share."""
        if isinstance(node, ast.Subscript | ast.Starred):
            return [node.value]
        if isinstance(node, ast.Tuple | ast.List):
            return list(node.elts)
        if isinstance(node, ast.IfExp):
            known = self.decide(node.test)
            return [node.body, node.orelse] if known is None else [node.body if known else node.orelse]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            of_torch = dotted(node.func).startswith("torch.")
            if node.func.attr in VIEWS or in_place(node.func.attr):
                return node.args[:1] if of_torch else [node.func.value]
        return []

    # -- statements ---------------------------------------------------------------------------------------------

    def block(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return
        for inner in self.expressions(node):
            self.expression(inner)
        self.bind(node)
        if isinstance(node, ast.If):
            known = self.decide(node.test)
            self.branches([node.body, node.orelse] if known is None else [node.body if known else node.orelse])
            return
        for name in ("body", "orelse", "finalbody"):
            self.block(getattr(node, name, []))
        for handler in getattr(node, "handlers", []):
            self.block(handler.body)

    def bind(self, node: ast.stmt) -> None:
        """What a statement assigns."""
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self.assign(target, node.value)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self.assign(node.target, node.value)
        elif isinstance(node, ast.AugAssign):
            self.augmented(node)
        elif isinstance(node, ast.For):
            self.assign(node.target, node.iter)

    def decide(self, test: ast.AST) -> bool | None:
        """What a condition comes to where a caller fixed the flag that it asks for."""
        if isinstance(test, ast.Name):
            return self.flags.get(test.id)
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            inner = self.decide(test.operand)
            return None if inner is None else not inner
        if isinstance(test, ast.BoolOp):
            ends = isinstance(test.op, ast.Or)  # one True decides an `or`, one False an `and`
            return ends if ends in [self.decide(value) for value in test.values] else None
        return None

    def branches(self, blocks: list[list[ast.stmt]]) -> None:
        """Both sides of a condition; afterwards a name may be what either made of it. A side that leaves is gone."""
        before, after = dict(self.shares), []
        for body in blocks:
            self.shares = dict(before)
            self.block(body)
            if not body or not isinstance(body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break):
                after.append(self.shares)
        merged = after or [before]
        names = set().union(*merged)
        self.shares = {name: frozenset().union(*(one.get(name, frozenset()) for one in merged)) for name in names}

    @staticmethod
    def expressions(node: ast.stmt) -> Iterator[ast.AST]:
        """The expressions of a statement itself, not of the statements within."""
        for _, value in ast.iter_fields(node):
            for item in value if isinstance(value, list) else [value]:
                if isinstance(item, ast.expr | ast.withitem):
                    yield item

    def assign(self, target: ast.AST, value: ast.AST) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            pairs = value.elts if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts) else None
            for index, item in enumerate(target.elts):
                self.assign(item, pairs[index] if pairs else value)
        elif isinstance(target, ast.Name):
            self.shares[target.id] = self.roots(value)
            self.kernels.pop(target.id, None)
        elif isinstance(target, ast.Subscript):
            self.note(self.roots(target.value), target, "assigns to an index of it")

    def augmented(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Subscript):
            self.note(self.roots(node.target.value), node, "assigns to an index of it")
        elif isinstance(node.target, ast.Name):
            self.note(self.roots(node.target), node, f"changes it in place ({node.target.id} …=)")

    # -- calls --------------------------------------------------------------------------------------------------

    def expression(self, node: ast.AST) -> None:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Call):
                self.call(inner)

    def call(self, node: ast.Call) -> None:
        name = dotted(node.func)
        last = name.rpartition(".")[2] or getattr(node.func, "attr", "")
        for keyword in node.keywords:
            if keyword.arg == "out":
                self.note(self.roots(keyword.value), node, f"is given as out= to {name or last}")
        if isinstance(node.func, ast.Attribute) and in_place(last):
            self.note(self.roots(node.func.value), node, f"calls .{last}() on it")
        if name.startswith(("torch.distributed.", "dist.")) and last in WRITERS and node.args:
            self.note(self.roots(node.args[0]), node, f"calls {name}() on it")
        for position in KERNELS.get(last, ()):
            if len(node.args) > position:
                self.note(self.roots(node.args[position]), node, f"hands it to {last}, which writes to it")
        self.callee(node, name)

    def callee(self, node: ast.Call, name: str) -> None:
        if name.startswith("torch.ops.") and name.count(".") >= 3:
            self.hand_over(node, self.torch_op(*name.split(".")[2:4]), name)
            return
        launched = isinstance(node.func, ast.Subscript)
        name = dotted(node.func.value) if isinstance(node.func, ast.Subscript) else name
        place = self.tree.resolve(self.module, name) if name and self.module else None
        if place is None or place.node is self.place.node or self.level <= 0:
            return
        flags = frozenset(
            (name, value.value)
            for name, value in given_to(place.node, node).items()
            if isinstance(value, ast.Constant) and isinstance(value.value, bool)
        )
        found = [] if launched else writes_of(self.tree, place, self.level, flags)
        writes = stores(place.node) if launched else [item.parameter for item in found]
        marked = [(one, one in writes) for one in parameters(place.node)]
        self.hand_over(node, marked, f"{'Triton kernel ' if launched else ''}{name}")

    def torch_op(self, namespace: str, name: str) -> list[tuple[str, bool]]:
        """What an op declares. Names of compiled libraries begin with an underscore."""
        if namespace.startswith("_"):
            return self.tree.compiled.get(name, [])
        op = self.tree.ops.get(name)
        if op is None or op.place is None or op.declared is None:
            return []
        return [(one, one in op.declared) for one in parameters(op.place.node)]

    def hand_over(self, node: ast.Call, marked: list[tuple[str, bool]], what: str) -> None:
        """Arguments of a call that land in a parameter which the callee writes to."""
        written = {name for name, writes in marked if writes}
        for value, (name, writes) in zip(node.args, marked, strict=False):
            if isinstance(value, ast.Starred):
                break
            if writes:
                self.note(self.roots(value), node, f"hands it to {what}, which writes to {name}")
        for keyword in node.keywords:
            if keyword.arg in written and keyword.arg != "out":
                self.note(self.roots(keyword.value), node, f"hands it to {what}, which writes to {keyword.arg}")


def stores(node: ast.FunctionDef) -> list[str]:
    """The pointers of a Triton kernel that it stores through."""
    shares = {name: {name} for name in parameters(node)}
    for inner in ast.walk(node):  # `pointer += offset` stays the pointer it was
        if isinstance(inner, ast.Assign) and isinstance(inner.targets[0], ast.Name):
            name = inner.targets[0].id
            shares[name] = shares.get(name, set()) | pointers(inner.value, shares)
    calls = [inner for inner in ast.walk(node) if isinstance(inner, ast.Call) and inner.args]
    writing = [inner for inner in calls if isinstance(inner.func, ast.Attribute) and inner.func.attr in STORES]
    return sorted(set().union(*(pointers(inner.args[0], shares) for inner in writing)))


def pointers(value: ast.AST, shares: dict[str, set[str]]) -> set[str]:
    """The parameters that a pointer of a Triton kernel comes from."""
    if isinstance(value, ast.Name):
        return shares.get(value.id, set())
    if isinstance(value, ast.BinOp):  # pointer + offset; a product is none
        if not isinstance(value.op, ast.Add | ast.Sub):
            return set()
        return pointers(value.left, shares) | pointers(value.right, shares)
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr == "load":
            return set()
        return pointers(
            value.args[0] if dotted(value.func).startswith("tl.") and value.args else value.func.value, shares
        )
    return set()


def given_to(callee: ast.FunctionDef, node: ast.Call) -> dict[str, ast.AST]:
    """The arguments of a call by the callee's names for them."""
    named = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
    return {**dict(zip(parameters(callee), node.args, strict=False)), **named}


def writes_of(tree: Tree, place: Place, level: int = LEVELS, flags: Flags = frozenset()) -> list[Write]:
    """What a function surely writes to, its callees followed; `flags` are parameters that a caller fixed."""
    key = (f"{place.path}:{place.node.lineno}", level, flags)
    if key not in tree.known:
        tree.known[key] = []  # what calls itself adds nothing
        tree.known[key] = Body(tree, place, level - 1, flags).read()
    return tree.known[key]


# -- registrations ----------------------------------------------------------------------------------------------


def declared_in(node: ast.AST | None) -> frozenset[str] | None:
    if literal(node) == "unknown":
        return None
    items = getattr(node, "elts", [])
    return frozenset(literal(item) for item in items)


def argument(node: ast.Call, position: int | None, name: str) -> ast.AST | None:
    for keyword in node.keywords:
        if keyword.arg == name:
            return keyword.value
    return node.args[position] if position is not None and len(node.args) > position else None


def registrations(tree: Tree, module: Module) -> Iterator[Op]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef):
            for item in node.decorator_list:
                if isinstance(item, ast.Call) and (is_custom_op(item) or is_helion(item)):
                    yield decorated(item, Place(module.path, node))
        elif isinstance(node, ast.Call):
            name = dotted(node.func).rpartition(".")[2]
            if REGISTER.fullmatch(name):
                yield direct(tree, module, node)
            elif name == "define":
                yield from defined(tree, module, node)


def is_custom_op(node: ast.Call) -> bool:
    return dotted(node.func).rpartition(".")[2] == "custom_op" and bool(node.args)


def is_helion(node: ast.Call) -> bool:
    """vLLM's decorator of kernels in Helion's language, which makes an operator of each."""
    return dotted(node.func).rpartition(".")[2] == "register_kernel"


def decorated(node: ast.Call, place: Place) -> Op:
    name = literal(argument(node, 0, "op_name")).rpartition("::")[2] or place.node.name
    return Op(name, place.path, node.lineno, declared_in(argument(node, None, "mutates_args")), place)


def direct(tree: Tree, module: Module, node: ast.Call) -> Op:
    function = argument(node, 1, "op_func")
    while isinstance(function, ast.Call) and function.args:  # a decorator, called by hand
        function = function.args[0]
    place = tree.resolve(module, dotted(function)) if function is not None else None
    name = literal(argument(node, 0, "op_name")) or dotted(function or node)
    return Op(name, module.path, node.lineno, declared_in(argument(node, 2, "mutates_args")), place)


def defined(tree: Tree, module: Module, node: ast.Call) -> Iterator[Op]:
    """A schema in text, and the `impl` of the same name in the same module."""
    text = " ".join(literal(item) for item in node.args)
    for name, given in Tree.schema(text):
        declared = frozenset(one for one, writes in given if writes)
        for other in ast.walk(module.tree):
            if not isinstance(other, ast.Call) or dotted(other.func).rpartition(".")[2] != "impl":
                continue
            if len(other.args) < 2 or literal(other.args[0]).rpartition("::")[2] != name:
                continue
            place = next(filter(None, (tree.resolve(module, dotted(item)) for item in other.args[1:])), None)
            if place and len(given) == len(parameters(place.node)):
                order = dict(zip([one for one, _ in given], parameters(place.node), strict=True))
                yield Op(name, module.path, node.lineno, frozenset(order[one] for one in declared), place)


def scan(root: Path, package: str) -> tuple[list[Op], list[tuple[Op, list[Write]]]]:
    """All ops with a function behind them, and those that write into what they do not declare."""
    tree = Tree(root, package)
    marks = ("direct_register_", "custom_op(", ".define(", "register_kernel(")
    found: list[Op] = []
    for file in sorted((root / package).rglob("*.py")):
        if any(mark in file.read_text(encoding="utf-8", errors="replace") for mark in marks):
            module = tree.module(file.relative_to(root).as_posix())
            found += registrations(tree, module) if module else []
    tree.ops = {op.name: op for op in found}
    wrong = []
    for op in found:
        if op.place is not None and op.declared is not None:
            writes = [write for write in writes_of(tree, op.place) if write.parameter not in op.declared]
            if writes:
                wrong.append((op, writes))
    return found, wrong


def report(found: list[Op], wrong: list[tuple[Op, list[Write]]]) -> int:
    """Print one line for each op and argument; return how many nobody has reviewed."""
    new = 0
    for op, writes in wrong:
        for parameter in sorted({write.parameter for write in writes}):
            write = next(item for item in writes if item.parameter == parameter)
            reason = REVIEWED.get((op.name, parameter))
            new += reason is None
            print(
                f"{op.path}:{op.line}: op {op.name} writes to {parameter}, declared is "
                f"{', '.join(sorted(op.declared or ())) or 'nothing'}: {write.where} {write.how}"
                + (f" (reviewed: {reason})" if reason else "")
            )
    lost = sum(1 for op in found if op.place is None)
    print(
        f"{len(found)} registrations, {sum(map(bool, (op.declared for op in found)))} declare a write, {lost} not read"
    )
    return new


def main() -> int:
    given = sys.argv[1:]
    root = Path(given[0] if given else os.environ.get("PATCHKIT_TREE") or Path.cwd()).resolve()
    package = given[1] if len(given) > 1 else "vllm"
    if not (root / package / "__init__.py").is_file():
        print(f"cannot tell: {root} holds no package {package}")
        return 125
    found, wrong = scan(root, package)
    new = report(found, wrong)
    if not found:
        print("patchkit: absent: no custom op is registered")
    elif new:
        print(f"bad: {new} arguments are written to and not declared as mutated")
    else:
        print("good: no op is seen to write into an argument that it does not declare, but for the reviewed ones")
    return 1 if new else 0


if __name__ == "__main__":
    sys.exit(main())
