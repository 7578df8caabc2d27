"""Apply a recipe's series to what is installed, or to a wheel, and take it back; all distributions or none."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from packaging.utils import canonicalize_name

from patchkit.environment.installed.carried import LeftOut
from patchkit.environment.installed.change import Plan, Standing, plan_change
from patchkit.environment.installed.compile_caches import CompileCache, empty_compile_cache, find_compile_caches
from patchkit.environment.installed.fit import Fitted, Subject, fit_series
from patchkit.environment.installed.transaction import commit, hold, prepare, recover
from patchkit.environment.installed.wheel import (
    Repack,
    check_target,
    choose_target,
    is_patched,
    write_wheel,
)
from patchkit.errors import RequestError
from patchkit.recipe.library import LoadedRecipe
from patchkit.recipe.load import load_recipe
from patchkit.source.commit import Tree
from patchkit.source.installed.folder import Installed, find_info, peek_version, read_installed
from patchkit.source.installed.wheel import read_wheel
from patchkit.source.source import FactSettings
from patchkit.stack.outcome import SeriesResult
from patchkit.stack.series import load_series
from patchkit.tools.toolkit import Toolkit


class State(StrEnum):
    """What became of a distribution."""

    APPLIED = "applied"
    ALREADY = "already-applied"
    NOTHING = "nothing-to-change"
    REVERTED = "reverted"
    NOTHING_TO_REVERT = "nothing-to-revert"
    CONFLICT = "does-not-stand"
    PLANNED = "would-change"


@dataclass(frozen=True)
class InstalledRequest:
    """A recipe for a site-packages folder, or for a wheel and where the new one goes (a file, or a folder for it).

    `revert` takes back what was done to the folder; `empty_caches` removes compiled graphs of this user.
    """

    recipe: Path
    site_packages: Path | None = None
    wheel: tuple[Path, Path] | None = None
    revert: bool = False
    dry_run: bool = False
    empty_caches: bool = False


@dataclass(frozen=True)
class DistributionReport:
    """One distribution: what was patched and how. `files` differ from upstream's now; `written` is a new wheel."""

    upstream: str
    label: str
    state: State
    base: Tree | None = None
    result: SeriesResult | None = None
    left_out: tuple[LeftOut, ...] = ()
    files: tuple[str, ...] = ()
    written: Path | None = None


@dataclass(frozen=True)
class InstalledReport:
    """All distributions of a request. `caches` hold, or held, compiled graphs; `emptied` says which."""

    distributions: tuple[DistributionReport, ...]
    caches: tuple[CompileCache, ...]
    emptied: bool

    @property
    def stands(self) -> bool:
        """Return whether every patch of every distribution stands."""
        return all(one.state is not State.CONFLICT for one in self.distributions)


def apply_installed(toolkit: Toolkit, request: InstalledRequest) -> InstalledReport:
    """Apply, or take back, a recipe on installed distributions or a wheel. Nothing is written unless all stands.

    Raises `RequestError` for what is not installed, is editable, was changed by somebody else, or holds links.
    """
    loaded = load_recipe(request.recipe)
    if request.wheel is not None:
        return InstalledReport((_apply_to_wheel(toolkit, loaded, request, *request.wheel),), (), False)
    if request.site_packages is None:
        raise RequestError("neither a folder nor a wheel is named", "--to-site-packages DIR, or --to-wheel IN OUT")
    root = request.site_packages.resolve()
    with contextlib.ExitStack() as stack:
        found = _find_all(loaded, root, every=request.revert)
        for info in sorted(set(found.values())):
            _open(toolkit, info, stack, request.dry_run)
        work = _revert_all if request.revert else _apply_all
        reports = work(toolkit, loaded, request, {name: read_installed(root, info) for name, info in found.items()})
    return _with_caches(toolkit, request, reports)


def _find_all(loaded: LoadedRecipe, root: Path, every: bool) -> dict[str, Path]:
    """Return the dist-info of each upstream that has patches (or all); each must be there, for all or none is done."""
    names = [name for name in loaded.recipe.upstream if every or load_series(loaded, name)]
    if not names:
        raise RequestError(f"{loaded.path}: the series is empty", "add `series: [NAME]` to it")
    found = {name: find_info(root, distribution_name(loaded, name)) for name in names}
    missing = [distribution_name(loaded, name) for name, info in found.items() if info is None]
    if (missing and not every) or not any(found.values()):
        told = f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed there"
        raise RequestError(f"{root}: {told}", "name the folder that holds the .dist-info")
    return {name: info for name, info in found.items() if info is not None}


def distribution_name(loaded: LoadedRecipe, upstream: str) -> str:
    """Return the name under which an upstream of a recipe is installed."""
    entry = loaded.recipe.upstream[upstream]
    return entry.package or entry.wheel or upstream


def _open(toolkit: Toolkit, info: Path, stack: contextlib.ExitStack, dry_run: bool) -> None:
    """Hold a distribution, and bring what an earlier run left half done to an end."""
    stack.enter_context(hold(info))
    if not dry_run and (done := recover(info)):
        toolkit.progress.warn(f"{info.name}: an earlier change had not come to its end: it is {done}")


def _apply_all(
    toolkit: Toolkit, loaded: LoadedRecipe, request: InstalledRequest, installed: Mapping[str, Installed]
) -> tuple[DistributionReport, ...]:
    torch = peek_version(next(iter(installed.values())).root, "torch")
    settings = _settings(loaded, torch)
    fitted = {
        name: fit_series(toolkit, Subject(name, one.distribution, one.contents), load_series(loaded, name), settings)
        for name, one in installed.items()
    }
    if any(one.result.patched is None for one in fitted.values()):
        return tuple(_report(fit, _failed(fit)) for fit in fitted.values())
    plans = {name: plan_change(installed[name], fit.standing(loaded.recipe.name)) for name, fit in fitted.items()}
    if not request.dry_run:
        _carry_out([(installed[name].info, plan) for name, plan in plans.items() if plan is not None])
    return tuple(_report(fit, _applied(fit, plans[name], request.dry_run)) for name, fit in fitted.items())


def _report(fit: Fitted, state: State) -> DistributionReport:
    files = tuple(sorted(fit.contents))
    return DistributionReport(fit.upstream, fit.label, state, fit.base, fit.result, fit.left_out, files)


def _failed(fit: Fitted) -> State:
    return State.CONFLICT if fit.result.patched is None else State.PLANNED


def _applied(fit: Fitted, plan: Plan | None, dry_run: bool) -> State:
    if plan is None:
        return State.ALREADY if fit.contents else State.NOTHING
    return State.PLANNED if dry_run else State.APPLIED


def _revert_all(
    toolkit: Toolkit,  # noqa: ARG001  # as `_apply_all`
    loaded: LoadedRecipe,  # noqa: ARG001
    request: InstalledRequest,
    installed: Mapping[str, Installed],
) -> tuple[DistributionReport, ...]:
    plans = {name: plan_change(one, None) for name, one in installed.items()}
    if not request.dry_run:
        _carry_out([(installed[name].info, plan) for name, plan in plans.items() if plan is not None])
    reports = []
    for name, one in installed.items():
        state = State.NOTHING_TO_REVERT if plans[name] is None else State.REVERTED
        state = State.PLANNED if request.dry_run and state is State.REVERTED else state
        files = tuple(sorted(one.journal.after)) if one.journal else ()
        reports.append(DistributionReport(name, one.distribution.label, state, files=files))
    return tuple(reports)


def _carry_out(work: Sequence[tuple[Path, Plan]]) -> None:
    """Prepare everything, then do everything: what can fail fails before the first file is changed."""
    try:
        for info, plan in work:
            prepare(info, plan)
    except BaseException:
        for info, _ in work:
            recover(info)
        raise
    for info, _ in work:
        commit(info)


def _settings(loaded: LoadedRecipe, torch: str | None) -> FactSettings:
    recipe = loaded.recipe
    target = recipe.target
    return FactSettings(arch=target.arch, python=target.python, torch=torch or target.torch, pins=recipe.pins)


def _apply_to_wheel(
    toolkit: Toolkit, loaded: LoadedRecipe, request: InstalledRequest, source: Path, out: Path
) -> DistributionReport:
    wheel = read_wheel(source)
    distribution = wheel.distribution
    if is_patched(wheel):
        raise RequestError(f"{source}: was patched by patchkit already", "name the wheel that it was made from")
    name = canonicalize_name(distribution.name)
    upstreams = {canonicalize_name(distribution_name(loaded, one)): one for one in loaded.recipe.upstream}
    if name not in upstreams:
        raise RequestError(
            f"{source}: {distribution.name} is no upstream of {loaded.path}",
            f"it has: {', '.join(loaded.recipe.upstream)}",
        )
    upstream = upstreams[name]
    subject = Subject(upstream, distribution, wheel.contents)
    fit = fit_series(toolkit, subject, load_series(loaded, upstream), _settings(loaded, None))
    report = _report(fit, _failed(fit))
    if (standing := fit.standing(loaded.recipe.name)) is None:
        return report
    if not fit.contents:
        return replace(report, state=State.NOTHING)
    target, version = choose_target(wheel, out, standing.tree)
    check_target(source, target)
    if request.dry_run:
        return replace(report, state=State.PLANNED)
    changed = write_wheel(Repack(wheel, version, fit.contents), _note(standing), target)
    return replace(report, state=State.APPLIED if changed else State.ALREADY, written=target)


def _note(standing: Standing) -> bytes:
    document = {"format": 1, "recipe": standing.recipe, "base": standing.base, "tree": standing.tree}
    return (json.dumps({**document, "series": list(standing.series)}, indent=1, sort_keys=True) + "\n").encode()


def _with_caches(
    toolkit: Toolkit, request: InstalledRequest, reports: tuple[DistributionReport, ...]
) -> InstalledReport:
    caches = tuple(cache for cache in find_compile_caches(toolkit.env) if cache.holds)
    stands = all(one.state is not State.CONFLICT for one in reports)
    emptied = request.empty_caches and stands and not request.dry_run
    if emptied:
        for cache in caches:
            empty_compile_cache(cache, toolkit.env)
    return InstalledReport(reports, caches, emptied)
