"""`patchkit import`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from patchkit.cli.options import json_option, source_option
from patchkit.cli.terminal import emit_json, make_toolkit, note, say, visible

if TYPE_CHECKING:
    from patchkit.workflows.import_patch import ImportReport, Taken


@click.command("import", short_help="Take a pull request, commit, diff or mailbox into a library as a patch.")
@click.argument("what", metavar="SOURCE")
@click.argument("target", metavar="RECIPE-OR-LIBRARY", type=click.Path(path_type=Path))
@click.option("--name", metavar="SLUG", help="Name of the patch's folder; of a mailbox, numbers are put behind it.")
@click.option("--add", is_flag=True, help="Put the patch at the end of the recipe's series; its comments stay.")
@click.option("--update", is_flag=True, help="Take what moved since an earlier import; what you wrote stays.")
@click.option(
    "--exclude", metavar="GLOB", multiple=True, help="Set more files beside the patch, as tests and docs are."
)
@click.option(
    "--strip",
    metavar="N",
    type=click.IntRange(0, 10),
    help="Leading parts to remove from names in a diff. Default: as they look, all up to site-packages.",
)
@click.option("--upstream", metavar="NAME", help="The upstream that is patched; default: the recipe's main one.")
@click.option("--dry-run", is_flag=True, help="Tell what would be taken, and write nothing.")
@source_option
@json_option
@click.pass_context
def command(context: click.Context, /, as_json: bool, **chosen: Any) -> int:
    """Take a patch from outside into a library: patches/NAME with patch.yaml and the diff.

    SOURCE is a pull request of the recipe's upstream (pull/N or #N), a URL of a .diff or .patch, a file (a diff, or a
    mailbox with many patches), or a commit or ref. It is frozen by its commit or sha256; a second import changes no
    byte, and one that moved is refused without --update. Author, date and message are kept. Tests, docs and CI are set
    beside the patch. Of a pull request on GitHub, title and state are asked for with GITHUB_TOKEN where that helps.
    """
    from patchkit.workflows.import_patch import ImportRequest, import_patch

    request = ImportRequest(**chosen)
    report = import_patch(make_toolkit(context), request)
    if as_json:
        emit_json(_document(report))
    else:
        _say_report(report, request.dry_run)
    return 0


def _document(report: ImportReport) -> dict[str, Any]:
    added = None if report.added_to is None else str(report.added_to)
    return {"patches": [_patch_document(patch) for patch in report.patches], "added_to": added}


def _patch_document(patch: Taken) -> dict[str, Any]:
    arrival = patch.arrival
    return {
        "patch": patch.slug,
        "folder": str(patch.folder),
        "state": patch.state,
        "title": arrival.title,
        "author": arrival.header.author or None,
        "imported": arrival.imported.model_dump(mode="json", by_alias=True, exclude_none=True),
        "files": sorted(arrival.parts.keys() - arrival.aside),
        "aside": sorted(arrival.aside),
        "native": list(arrival.native),
    }


def _say_report(report: ImportReport, dry_run: bool) -> None:
    for patch in report.patches:
        arrival = patch.arrival
        frozen = arrival.imported.commit or f"sha256 {arrival.imported.sha256}"
        say(visible(f"{patch.slug}: {'would be ' if dry_run else ''}{patch.state}: {arrival.title}"))
        say(visible(f"  {patch.folder}  from {arrival.imported.from_} at {frozen[:19].rstrip()}"))
        beside = f", {len(arrival.aside)} beside it (tests, docs, CI)" if arrival.aside else ""
        say(f"  {_count(len(arrival.parts) - len(arrival.aside))}{beside}")
        if arrival.native:
            say(visible(f"  needs a native build: {', '.join(arrival.native[:3])}{' …' if arrival.native[3:] else ''}"))
    if report.added_to is not None:
        say(visible(f"added to the series of {report.added_to}"))
    elif not dry_run and any(patch.state == "new" for patch in report.patches):
        note(f"next: add {', '.join(patch.slug for patch in report.patches)} to the series of a recipe")


def _count(number: int) -> str:
    return f"{number} file" if number == 1 else f"{number} files"
