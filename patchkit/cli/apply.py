"""`patchkit apply`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from patchkit.cli.options import at_option, json_option, locked_option, recipe_argument, source_option
from patchkit.cli.terminal import emit_json, make_toolkit, note, say, visible

if TYPE_CHECKING:
    from patchkit.workflows.apply import ApplyReport
    from patchkit.workflows.apply_installed import InstalledReport

FOLDER = click.Path(path_type=Path)
FOR_TREES = ("at", "to", "locked")  # options that ask for a commit of upstream, or write its tree
FOR_INSTALLED = ("revert", "empty_caches")


@click.command()
@recipe_argument
@at_option
@click.option(
    "--to",
    type=FOLDER,
    metavar="DIR",
    help="Write the patched tree to this folder: a new or empty one, or one that an earlier apply wrote.",
)
@click.option(
    "--to-site-packages",
    "site_packages",
    type=FOLDER,
    metavar="DIR",
    help="Patch what is installed in this folder, by its own version; --revert takes it back exactly.",
)
@click.option(
    "--to-wheel",
    "wheel",
    type=(click.Path(path_type=Path, exists=True, dir_okay=False), FOLDER),
    metavar="IN OUT",
    help="Write a patched wheel with a local version; OUT is a folder, or a wheel's name with the version you want.",
)
@click.option("--revert", is_flag=True, help="With --to-site-packages: make it as upstream made it.")
@click.option(
    "--empty-compile-caches",
    "empty_caches",
    is_flag=True,
    help="With --to-site-packages: remove your compiled graphs of torch and vLLM, which may be of the other files.",
)
@click.option("--dry-run", is_flag=True, help="Write nothing, only tell.")
@locked_option
@source_option
@json_option
@click.pass_context
def command(context: click.Context, /, as_json: bool, **options: Any) -> int:
    """Apply the recipe's series to the tree of a commit, to what is installed, or to a wheel.

    What became of every patch is told. Exit 0 when all patches stand. Exit 1 when one does not: all are tried and told,
    nothing is written.
    """
    installed = {name: options.pop(name) for name in ("site_packages", "wheel", *FOR_INSTALLED)}
    if installed["site_packages"] is None and installed["wheel"] is None:
        if unfit := [name for name in FOR_INSTALLED if installed[name]]:
            raise click.UsageError(f"{_option(unfit[0])} is for --to-site-packages")
        return _apply_to_tree(context, options, as_json)
    return _apply_to_installed(context, {**options, **installed}, as_json)


def _apply_to_tree(context: click.Context, options: dict[str, Any], as_json: bool) -> int:
    from patchkit.report.json import series_document
    from patchkit.workflows.apply import ApplyRequest, apply_recipe

    report = apply_recipe(make_toolkit(context), ApplyRequest(**options))
    if as_json:
        written = None if report.written is None else str(report.written)
        emit_json({**series_document(report.result, report.base), "written": written})
    else:
        _say_report(report)
    return 0 if report.result.patched is not None else 1


def _say_report(report: ApplyReport) -> None:
    """Print the base, one row a patch, and the tree that results."""
    from patchkit.report.text import series_table

    base, patched = report.base, report.result.patched
    say(f"base  {base.commit.name}  commit {base.commit.id[:12]}  tree {base.id[:12]}")
    say(series_table(report.result))
    if patched is None:
        failed = [record.patch for record in report.result.records if not record.outcome.stands]
        note(f"no result: {', '.join(failed)} {'does' if len(failed) == 1 else 'do'} not stand")
        return
    say(f"tree  {patched.id}")
    if report.written is not None:
        say(f"written to {visible(str(report.written))}")


def _apply_to_installed(context: click.Context, options: dict[str, Any], as_json: bool) -> int:
    from patchkit.workflows.apply_installed import InstalledRequest, apply_installed

    for name in FOR_TREES:
        if options.pop(name):
            raise click.UsageError(f"{_option(name)} is not for what is installed: its own version decides")
    options.pop("source")  # nothing of upstream is fetched
    if options["wheel"] and (options["site_packages"] or options["revert"] or options["empty_caches"]):
        raise click.UsageError(
            "--to-wheel writes a new file: no --to-site-packages, --revert or --empty-compile-caches"
        )
    report = apply_installed(make_toolkit(context), InstalledRequest(**options))
    if as_json:
        emit_json(_document(report))
    else:
        _say_installed(report)
    return 0 if report.stands else 1


def _option(name: str) -> str:
    return {"empty_caches": "--empty-compile-caches"}.get(name, f"--{name}")


def _document(report: InstalledReport) -> dict[str, Any]:
    from patchkit.report.json import series_document

    blank: dict[str, Any] = {"base": None, "tree": None, "series": []}
    return {
        "distributions": [
            {
                "upstream": one.upstream,
                "distribution": one.label,
                "state": one.state.value,
                **(blank if one.result is None else series_document(one.result, one.base)),
                "files": list(one.files),
                "left_out": [
                    {"patch": left.patch, "file": left.file, "outcome": left.outcome} for left in one.left_out
                ],
                "written": None if one.written is None else str(one.written),
            }
            for one in report.distributions
        ],
        "compile_caches": [
            {"name": cache.name, "path": str(cache.path), "emptied": report.emptied} for cache in report.caches
        ],
    }


def _say_installed(report: InstalledReport) -> None:
    """Print one block a distribution, what its package does not carry, and where compiled graphs lie."""
    from patchkit.report.text import align, series_table

    for one in report.distributions:
        if one.result is not None and one.base is not None:
            say(f"base  {one.label} as installed  commit {one.base.commit.id[:12]}  tree {one.base.id[:12]}")
            say(series_table(one.result))
        if one.left_out:
            say(align(("left out", "of", "why"), [(left.file, left.patch, left.outcome) for left in one.left_out]))
        say(f"{one.label}: {one.state.value}{f', {len(one.files)} files' if one.files else ''}")
        for path in one.files:
            say(f"  {visible(path)}")
        if one.written is not None:
            say(f"written to {visible(str(one.written))}")
    for cache in report.caches:
        text = f"{cache.name} keeps compiled graphs in {visible(str(cache.path))}"
        note(f"{text}: emptied" if report.emptied else f"{text}; --empty-compile-caches removes them")
    if not report.stands:
        note("nothing was written: a patch does not stand")
