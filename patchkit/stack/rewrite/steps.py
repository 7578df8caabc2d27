"""The steps on one file: replace, import, insert, append. Each returns the new text.

A step is done, and the text the old one, when what it would write is found. That is asked first, and by syntax where
the step has a pattern: a replacement often contains what it replaces, and a guard must not be put around a guard.
"""

from __future__ import annotations

import ast
import re
from textwrap import dedent

from ast_grep_py import SgNode

from patchkit.recipe.model import RewriteAppend, RewriteImport, RewriteInsert, RewriteReplace
from patchkit.stack.rewrite.syntax import METAVARIABLE, RewriteError, Span, Syntax, holds, span_of
from patchkit.stack.rewrite.text import (
    Edit,
    apply_edits,
    block_of,
    indent_block,
    indentation,
    line_end,
    line_start,
    own_lines,
    render,
    significant_lines,
)

_DEFINED = re.compile(r"^(?:async )?(?:def|class) (\w+)", re.MULTILINE)
_IMPORTS = ("import_statement", "import_from_statement", "future_import_statement")


def replace(syntax: Syntax, step: RewriteReplace) -> str:
    """Replace the matches; those that stand within an applied replacement are done."""
    scope = _scope(syntax, step.inside)
    recognisable = bool(step.replace.strip()) and not METAVARIABLE.fullmatch(step.replace.strip())
    found = syntax.find(step.match, scope)
    ready = [match.span for match in syntax.find(step.replace, scope)] if recognisable else []
    ready = [span for span in ready if not _is_part_of(span, [match.span for match in found], ready)]
    left = [match for match in found if not any(holds(span, match.span) for span in ready)]
    if not left and (len(ready) == step.expect or not recognisable):
        return syntax.text
    if len(left) + len(ready) != step.expect:
        places = f" (lines {syntax.lines(match.span for match in left)})" if left else ""
        already = f" and {len(ready)} replaced already (lines {syntax.lines(iter(ready))})" if ready else ""
        raise RewriteError(f"found {len(left)} of {step.match.strip()!r}{places}{already}, expected {step.expect}")
    return apply_edits(syntax.text, [render(syntax, match, step.replace) for match in left])


def _is_part_of(span: Span, matches: list[Span], ready: list[Span]) -> bool:
    """Whether what looks like a replacement is a part of something still to be replaced."""
    larger = [match for match in matches if match != span and holds(match, span)]
    return any(not any(holds(whole, match) for whole in ready) for match in larger)


def insert(syntax: Syntax, step: RewriteInsert) -> str:
    """Insert lines after or before each statement that the pattern is found in."""
    pattern = step.after or step.before or ""
    found = syntax.find(pattern, _scope(syntax, step.inside))
    spans = {(span_of(match.statement)[0], max(match.span[1], span_of(match.statement)[1])) for match in found}
    if len(spans) != step.expect:
        lines = f" (lines {syntax.lines(iter(sorted(spans)))})" if spans else ""
        raise RewriteError(f"found {len(spans)} of {pattern.strip()!r}{lines}, expected {step.expect}")
    edits: list[Edit] = []
    for span in sorted(spans):
        edits += _insert_at(syntax, own_lines(syntax, span), step)
    return apply_edits(syntax.text, edits)


def _insert_at(syntax: Syntax, statement: Span, step: RewriteInsert) -> list[Edit]:
    """The edit that puts the lines beside a statement, none where they stand there."""
    start, end = statement
    indent = indentation(syntax.text, start)
    block = block_of(step.insert)
    wanted = significant_lines(indent_block(block, indent))
    gap = "\n" * (1 + _blank_lines(syntax, block, indent))
    if step.after is not None:
        if significant_lines(syntax.text[end:])[: len(wanted)] == wanted:
            return []
        edit = (end, end, gap + indent_block(block, indent))
    else:
        start = _above_comments(syntax.text, start)
        if significant_lines(syntax.text[:start])[-len(wanted) :] == wanted:
            return []
        edit = (start, start, indent_block(block, indent) + gap)
    _refuse_second_definition(syntax, block, syntax.enclosing(statement[0]))
    return [edit]


def append(syntax: Syntax, step: RewriteAppend) -> str:
    """Append lines to the end of the file, or of a definition; lines that stand there somewhere are done."""
    text, block = syntax.text, block_of(step.append)
    if step.inside is None:
        start, end, indent = 0, len(text), ""
    else:
        start, end, indent = _body(syntax, step.inside)
    wanted = significant_lines(indent_block(block, indent))
    there = significant_lines(text[start:end])
    if any(there[at : at + len(wanted)] == wanted for at in range(len(there))):
        return text
    _refuse_second_definition(syntax, block, step.inside or "")
    blank = _blank_lines(syntax, block, indent)
    if step.inside is not None:
        return apply_edits(text, [(end, end, "\n" * (1 + blank) + indent_block(block, indent))])
    kept = text.rstrip()
    gap = "\n" * (1 + max(blank, 1)) if kept else ""
    return apply_edits(text, [(len(kept), end, gap + indent_block(block, "") + "\n")])


def add_import(syntax: Syntax, step: RewriteImport) -> str:
    """Add an import statement (in C++ an include) unless what it binds is imported already."""
    if syntax.language == "cpp":
        return _add_include(syntax, step)
    wanted = _imported(step.import_)
    top = _statements(syntax.root)
    body = syntax.definition(step.inside).body if step.inside else None
    local = _statements(body) if body is not None else []
    present = [_imported(node.text()) for node in top + local if node.kind() in _IMPORTS]
    if wanted <= set().union(*present):
        return syntax.text
    statement = block_of(step.import_)
    statements = local or top
    head = _leading(statements, futures_only=any(module == "__future__" for module, _, _ in wanted), local=bool(local))
    if head is not None:
        start, end = own_lines(syntax, span_of(head))
        gap = "\n" if head.kind() in _IMPORTS or local else "\n\n"
        return apply_edits(syntax.text, [(end, end, gap + indent_block(statement, indentation(syntax.text, start)))])
    if local:
        start, _ = own_lines(syntax, span_of(local[0]))
        at = _above_comments(syntax.text, start)
        return apply_edits(syntax.text, [(at, at, indent_block(statement, indentation(syntax.text, start)) + "\n")])
    header = re.match(r"(#.*(\n|$))*", syntax.text)
    at = header.end() if header else 0
    gap = "\n" if at and not syntax.text[:at].endswith("\n") else ""
    return apply_edits(syntax.text, [(at, at, gap + "\n".join(statement) + "\n" + ("\n" if top else ""))])


def _add_include(syntax: Syntax, step: RewriteImport) -> str:
    statement = " ".join(step.import_.split())
    if not statement.startswith("#include ") or step.inside:
        raise RewriteError(f"in a C++ file an import is an #include of the whole file, not {statement!r}")
    known = syntax.root.find_all(kind="preproc_include")
    if statement in {" ".join(node.text().split()) for node in known}:
        return syntax.text
    open_ones = [node for node in known if (parent := node.parent()) and parent.kind() == "translation_unit"]
    if not known:
        raise RewriteError("there is no #include to put one after")
    at = line_end(syntax.text, span_of((open_ones or known[:1])[-1])[0])
    return apply_edits(syntax.text, [(at, at, "\n" + statement)])


def _imported(statement: str) -> set[tuple[str, str, str | None]]:
    """What a statement imports: (module with its leading dots, name, alias); the module is "" for `import x`."""
    try:
        parsed = ast.parse(dedent(statement).strip()).body
    except SyntaxError:
        parsed = []
    names: set[tuple[str, str, str | None]] = set()
    for node in parsed:
        if isinstance(node, ast.ImportFrom):
            names |= {("." * node.level + (node.module or ""), alias.name, alias.asname) for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {("", alias.name, alias.asname) for alias in node.names}
    if not names or not all(isinstance(node, ast.Import | ast.ImportFrom) for node in parsed):
        raise RewriteError(f"not an import statement: {statement.strip()!r}")
    return names


def _leading(statements: list[SgNode], futures_only: bool, local: bool) -> SgNode | None:
    """The statement that an import goes after: the docstring or, in a file, the last of the first imports."""
    last = None
    for position, node in enumerate(statements):
        first = node.child(0)
        is_docstring = position == 0 and first is not None and first.kind() in ("string", "concatenated_string")
        is_import = node.kind() == "future_import_statement" or (node.kind() in _IMPORTS and not futures_only)
        if not is_docstring and (local or not is_import):
            break
        last = node
    return last


def _scope(syntax: Syntax, inside: str | None) -> Span:
    return syntax.definition(inside).span if inside else (0, len(syntax.text))


def _body(syntax: Syntax, name: str) -> tuple[int, int, str]:
    """Start and end of a definition's body (whole lines; the end is that of its last line) and its indentation."""
    known = syntax.definition(name)
    statements = _statements(known.body) if known.body is not None else []
    if not statements:
        raise RewriteError(f"{name} has no body to append to")
    start, _ = own_lines(syntax, span_of(statements[0]))
    end = own_lines(syntax, span_of(statements[-1]))[1]
    indent = indentation(syntax.text, start)
    while (after := syntax.text[end:].split("\n", 2)[1:2]) and after[0].startswith((indent + "#", indent + "//")):
        end = line_end(syntax.text, syntax.text.index("\n", end) + 1)  # a comment that closes the body
    return line_start(syntax.text, start), end, indent


def _statements(node: SgNode) -> list[SgNode]:
    return [child for child in node.children() if child.is_named()]


def _above_comments(text: str, start: int) -> int:
    """Where lines go that come before a statement: above the comment lines that belong to it."""
    at = line_start(text, start)
    indent = indentation(text, start)
    while at and (above := line_start(text, at - 1)) < at and text[above:at].startswith((indent + "#", indent + "//")):
        at = above
    return at or line_start(text, start)  # what the file begins with is its header


def _blank_lines(syntax: Syntax, block: list[str], indent: str) -> int:
    """Blank lines between a definition and its neighbours, as Python writes them."""
    if syntax.language != "python" or not re.match(r"(async )?def |class |@", block[0]):
        return 0
    return 1 if indent else 2


def _refuse_second_definition(syntax: Syntax, block: list[str], around: str) -> None:
    """A second definition would hide the first: upstream may have added its own."""
    if syntax.language != "python":
        return
    names = {f"{around}.{name}" if around else name for name in _DEFINED.findall("\n".join(block))}
    for known in syntax.definitions:
        if known.name in names:
            raise RewriteError(f"{known.name} is defined already, otherwise (line {syntax.lines(iter([known.span]))})")
