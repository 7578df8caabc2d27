"""`patchkit build`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from patchkit.cli.options import at_option, fresh_option, json_option, locked_option, recipe_argument, source_option
from patchkit.cli.terminal import amount, emit_json, make_toolkit, note, say, visible

if TYPE_CHECKING:
    from patchkit.image.image import Image
    from patchkit.workflows.build import BuildReport


@click.command()
@recipe_argument
@click.option(
    "--engine",
    type=click.Choice(["auto", "docker", "oci"]),
    default="auto",
    show_default=True,
    help="What makes the image: the Docker engine, or `oci`, which needs no daemon and writes an archive. auto takes"
    " docker when it answers, unless --output asks for an archive.",
)
@click.option("--tag", "tags", multiple=True, metavar="T", help="Name of the image instead of the recipe's `tags`.")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The archive; ./NAME-VERSION.oci.tar when not given.",
)
@at_option
@click.option("--no-verify", is_flag=True, help="Do not run the repros before and after.")
@fresh_option
@locked_option
@source_option
@json_option
@click.pass_context
def command(context: click.Context, /, recipe: Path, as_json: bool, no_verify: bool, **options: Any) -> int:
    """Build the recipe's image: its base with the files that the series changed.

    The repros run before and after, and nothing is written unless they are as the issues expect. Exit 1: a patch does
    not stand, or a repro is not as expected. Exit 125: a repro cannot tell.
    """
    from patchkit.report.json import series_document, verdict_document
    from patchkit.workflows.build import BuildRequest, build_recipe

    if options["engine"] == "docker" and options["output"] is not None:
        raise click.UsageError("--output is for the archive of --engine oci; docker keeps its images itself")
    report = build_recipe(make_toolkit(context), BuildRequest(recipe=recipe, verify=not no_verify, **options))
    beside = [series_document(result, base) for base, result in report.beside]
    if as_json:
        emit_json(
            {
                "image": _image_document(report.image),
                **series_document(report.result, report.base),
                **({"beside": beside} if beside else {}),
                "verdicts": [verdict_document(verdict) for verdict in report.verdicts],
                "problems": [vars(problem) for problem in report.problems],
            }
        )
    else:
        _say_report(report, verified=not no_verify)
    return report.exit_code


def _image_document(image: Image | None) -> dict[str, Any] | None:
    if image is None:
        return None
    archive = None if image.archive is None else str(image.archive)
    return {"engine": image.engine, "digest": image.digest, "tags": list(image.tags), "archive": archive}


def _say_report(report: BuildReport, verified: bool) -> None:
    """Print the series, each repro before and after, the image and what to do with it."""
    from patchkit.report.text import series_table

    say(f"base  {report.base.commit.name}  commit {report.base.commit.id[:12]}  tree {report.base.id[:12]}")
    say(series_table(report.result))
    for base, result in report.beside:
        say(f"with  {base.commit.upstream} {base.commit.name}  commit {base.commit.id[:12]}  tree {base.id[:12]}")
        say(series_table(result))
    results = [report.result, *(result for _, result in report.beside)]
    trees = [result.patched.id for result in results if result.patched is not None]
    if len(trees) < len(results):
        note("no image: not all patches stand")
        return
    say(f"tree  {', '.join(trees)}")
    if verified:
        _say_checks(report)
    if report.image is None:
        note("no image: the repros are not as expected")
    else:
        _say_image(report.image)


def _say_checks(report: BuildReport) -> None:
    from patchkit.report.text import align, seconds

    rows = [
        (
            f"{check.before.issue}/{check.before.repro}",
            check.before.answer.value,
            check.after.answer.value,
            check.before.fidelity,
            seconds(check.before.duration_seconds + check.after.duration_seconds),
            check.judgement.note or check.judgement.fulfilment.value,
        )
        for check in report.checks
    ]
    if not rows:
        note("the recipe names no issue: nothing was verified")
        return
    say(align(("issue", "before", "after", "fidelity", "time", "result"), rows))
    for problem in report.problems:
        say(f"error of the issue: {problem}")
        note(f"hint: {problem.hint}")
    for verdict in report.verdicts:
        if report.image is None and verdict.evidence is not None:
            note(f"log of {verdict.issue}/{verdict.repro} {verdict.series} the series: {verdict.evidence}")


def _say_image(image: Image) -> None:
    for tag in image.tags:
        say(f"image {tag}")
    say(f"      {image.digest}")
    if image.archive is not None:
        say(f"archive {visible(str(image.archive))}  {amount(image.archive.stat().st_size)}B")
        note(f"next: docker load -i {shlex.quote(str(image.archive))}")
    else:
        note(f"next: docker image inspect {image.tags[0] if image.tags else image.digest}")
