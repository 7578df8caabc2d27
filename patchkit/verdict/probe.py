"""Run a repro on a tree: in a folder of its own, watched, with a time limit, as often as it asks for."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from patchkit.environment.environment import Environment
from patchkit.environment.pool import MARK, PAIR_MARK
from patchkit.errors import RequestError
from patchkit.recipe.library import LoadedIssue
from patchkit.recipe.model import Repro
from patchkit.source.commit import Commit
from patchkit.source.source import FactSettings
from patchkit.tools.cache import digest_of, remove_path, storage_errors
from patchkit.tools.process import Limits, end_marked, run_logged
from patchkit.tools.toolkit import Toolkit
from patchkit.verdict.evidence import (
    KIND,
    LOG_BYTES,
    Evidence,
    Run,
    find_signature,
    read_loaded,
    read_log,
    write_evidence,
)

HARNESS = Path(__file__).parent / "harness"
PROBE_FORMAT = 1  # raised when the harness or the probe changes what a repro sees
PLACES = re.compile(r"PATCHKIT(_PAIR)?_(TREE|COMMIT)")  # what differs between equal trees
TORN = re.compile(r"EOFError: marshal data too short|ValueError: bad marshal data")
PYTEST_FILE = re.compile(r"(test_.*|.*_test)\.py")
PYTEST_OPTIONS = ("-q", "-p", "no:cacheprovider", "-c", "/dev/null")


@dataclass(frozen=True)
class ReproRun:
    """A repro to run: of which issue, at which commit, and what it is told of the target."""

    issue: LoadedIssue
    repro: Repro
    commit: Commit
    settings: FactSettings = field(default_factory=FactSettings)
    pair: Commit | None = None  # of the tree beside it

    @property
    def script(self) -> Path:
        """Return the script in the issue's folder."""
        return (self.issue.folder / self.repro.script).resolve()

    @property
    def signature(self) -> str:
        """Return the regular expression that a failure must show."""
        return self.repro.signature or self.issue.issue.signature

    @property
    def is_pytest(self) -> bool:
        """Return whether the script is a pytest file, by its name."""
        return PYTEST_FILE.fullmatch(self.script.name) is not None


def evidence_key(environment: Environment, run: ReproRun) -> str:
    """Return the hash of all that a probe depends on: equal trees share it, whatever commit they come from."""
    told = {name: value for name, value in _variables(environment, run).items() if not PLACES.fullmatch(name)}
    parts = [environment.tree_id, environment.id, run.issue.sha256, run.repro.model_dump(mode="json"), told]
    parts += [environment.pair_tree_id] if environment.pair_tree_id else []
    return digest_of([PROBE_FORMAT, *parts])


def run_repro(toolkit: Toolkit, environment: Environment, run: ReproRun) -> Evidence:
    """Run a repro as often as it asks for and keep the evidence; each run finds the tree and its caches as new.

    Raises `RequestError` when the script is missing, `StoreFailure` when evidence cannot be written.
    """
    if not run.script.is_file():
        raise RequestError(
            f"{run.script}: the script of repro {run.repro.name} is missing", "see `script` in issue.yaml"
        )
    with storage_errors(toolkit.cache.root):
        scratch = Path(tempfile.mkdtemp(prefix=f"{KIND}-", dir=toolkit.cache.scratch("partial")))
    try:
        record = scratch / "loaded"
        variables = {**environment.variables, **_variables(environment, run), "PATCHKIT_LOADED": str(record)}
        variables["PYTHONPATH"] = f"{HARNESS}:{_lay_out(run, scratch)}:{environment.variables['PYTHONPATH']}"
        logs = tuple(scratch / f"run-{number}.log" for number in range(1, run.repro.repeat + 1))
        runs = []
        for number, log in enumerate(logs):
            if len(logs) > 1:
                toolkit.progress.advance(f"run {run.issue.slug}/{run.repro.name}", number, len(logs))
            runs.append(_run_renewed(environment, run, log, variables))
        evidence = _collect(environment, run, tuple(runs), record)
        return write_evidence(toolkit.cache, evidence_key(environment, run), evidence, logs)
    finally:
        remove_path(scratch)


def _lay_out(run: ReproRun, scratch: Path) -> Path:
    """Copy the modules that the issue shares with others into a folder to import from, those it names and no others."""
    folder = scratch / "shared"
    with storage_errors(folder):
        folder.mkdir()
        for name, path in run.issue.modules.items():
            (folder / f"{name}.py").write_bytes(path.read_bytes())
    return folder


def _collect(environment: Environment, run: ReproRun, runs: tuple[Run, ...], record: Path) -> Evidence:
    loaded, looked = read_loaded(record)
    return Evidence(
        issue=run.issue.slug,
        issue_sha256=run.issue.sha256,
        repro=run.repro.name,
        kind="pytest" if run.is_pytest else "script",
        signature=run.signature,
        command=_command(environment, run),
        commit=run.commit.id,
        version=run.commit.version,
        tree=environment.tree_id,
        environment=environment.id,
        versions=dict(environment.versions),
        runs=runs,
        loaded=tuple(sorted(loaded)),
        looked=tuple(sorted(looked - loaded)),
    )


def _run_renewed(environment: Environment, run: ReproRun, log: Path, variables: Mapping[str, str]) -> Run:
    """Run the script once; again where it met byte code that a full disk had cut short: that is not the tree's."""
    environment.renew()
    done = _run_once(environment, run, log, variables)
    if not TORN.search(done.output):
        return done
    environment.renew(torn=True)
    return _run_once(environment, run, log, variables)


def _run_once(environment: Environment, run: ReproRun, log: Path, variables: Mapping[str, str]) -> Run:
    """Run the script once, in a new folder that is not in the tree."""
    with storage_errors(log.parent):
        folder = Path(tempfile.mkdtemp(prefix="cwd-", dir=log.parent))
    limits = Limits(run.repro.timeout_seconds, LOG_BYTES)
    command = environment.launcher(_command(environment, run))
    try:
        done = run_logged(command, log, cwd=folder, env=variables, limits=limits)
    finally:  # daemons, ray: they would hold the accelerator, or go on in this tree
        end_marked({name: variables[name] for name in ("PATCHKIT_LOADED", MARK, PAIR_MARK) if name in variables})
    facts = read_log(log)
    failed = done.exit_code != 0 and not done.timed_out and not done.overflowed
    found = find_signature(log, facts, run.signature) if failed else ""
    remove_path(folder)
    return Run(
        exit_code=done.exit_code,
        timed_out=done.timed_out,
        duration_seconds=round(done.duration_seconds, 3),
        output=facts.output,
        size_bytes=facts.size_bytes,
        marks=facts.marks,
        found=found or "",
        searched=found is not None,
        overflowed=done.overflowed,
    )


def _command(environment: Environment, run: ReproRun) -> tuple[str, ...]:
    if run.is_pytest:
        folder = str(run.script.parent)
        places = ("--rootdir", folder, "--confcutdir", folder)
        return (str(environment.python), "-m", "pytest", *PYTEST_OPTIONS, *places, str(run.script))
    return (str(environment.python), str(run.script))


def _variables(environment: Environment, run: ReproRun) -> dict[str, str]:
    """Return what a repro is told; facts that nobody knows are empty, and of a pair nothing is said without one."""
    settings = run.settings
    pins = {f"PATCHKIT_PIN_{re.sub('[^A-Z0-9]', '_', name.upper())}": value for name, value in settings.pins.items()}
    return {
        "PATCHKIT_TREE": str(environment.tree),
        "PATCHKIT_COMMIT": run.commit.id,
        "PATCHKIT_VERSION": run.commit.version or "",
        "PATCHKIT_UPSTREAM": run.commit.upstream,
        "PATCHKIT_ARCH": settings.arch or "",
        "PATCHKIT_PYTHON": settings.python or "",
        "PATCHKIT_TORCH": settings.torch or "",
        **pins,
        **(_pair_variables(environment, run.pair) if run.pair else {}),
    }


def _pair_variables(environment: Environment, pair: Commit) -> dict[str, str]:
    return {
        "PATCHKIT_PAIR_TREE": str(environment.pair_tree),
        "PATCHKIT_PAIR_COMMIT": pair.id,
        "PATCHKIT_PAIR_VERSION": pair.version or "",
        "PATCHKIT_PAIR_UPSTREAM": pair.upstream,
    }
