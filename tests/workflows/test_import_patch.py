"""The workflow of `import`: frozen, split, never twice, and nothing half taken."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from patchkit.errors import InvalidFile, RequestError
from patchkit.recipe.load import check_files
from patchkit.tools.cache import Cache
from patchkit.tools.toolkit import Toolkit
from patchkit.workflows.apply import ApplyRequest, apply_recipe
from patchkit.workflows.import_patch import ImportReport, ImportRequest, import_patch
from tests.support.forge import Forge, Told, serving
from tests.support.repositories import GitRepository

TEXT = "".join(f"line {number}\n" for number in range(1, 31))
DIFF = "--- a/v/x.py\n+++ b/v/x.py\n@@ -9,3 +9,3 @@\n line 9\n-line 10\n+zehn\n line 11\n"
MAIL = (
    "From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001\n"
    'From: "J. Doe" <j@example.org>\nDate: Tue, 14 Nov 2023 22:13:20 +0100\n'
    "Subject: [PATCH 1/2] [Bugfix] Count: ten\n\nIn German.\n---\n x | 2 +-\n 1 file changed\n\n"
    + DIFF
    + "-- \n2.39.5\n\n"
)
RECIPE = """# our product
format: 1
name: product
upstream: {{vllm: {{git: "{url}", ref: main}}}}
series: []   # nothing yet
"""

Import = Callable[..., ImportReport]


@pytest.fixture
def upstream(tmp_path: Path) -> GitRepository:
    upstream = GitRepository(tmp_path / "upstream")
    upstream.commit({"v/x.py": TEXT, "tests/test_x.py": "t = 1\n", "docs/x.md": "x\n", "csrc/x.cu": "x\n"}, "begin")
    return upstream


@pytest.fixture
def library(tmp_path: Path, upstream: GitRepository) -> Path:
    folder = tmp_path / "library"
    (folder / "recipes/product").mkdir(parents=True)
    (folder / "patches").mkdir()
    (folder / "recipes/product/recipe.yaml").write_text(RECIPE.format(url=upstream.url))
    return folder


@pytest.fixture
def take(toolkit: Toolkit, library: Path) -> Import:
    def call(what: object, target: Path = library / "recipes/product/recipe.yaml", **options: object) -> ImportReport:
        return import_patch(toolkit, ImportRequest(str(what), target, **options))  # type: ignore[arg-type]

    return call


def pull(
    upstream: GitRepository, fork: str = "main", text: str = "zehn", message: str = "Heal the fault\n\nIt hurt."
) -> str:
    """Open pull request 7, or push to it by force: one commit on a fork."""
    upstream.branch("work", fork)
    base = upstream.objects.read(upstream.tree_of(upstream.find(fork)), "v/x.py")
    assert base is not None
    files = {"v/x.py": base.decode().replace("line 10", text), "tests/test_x.py": "t = 2\n", "csrc/x.cu": "y\n"}
    head = upstream.commit(files, message, branch="work")
    upstream.ref("refs/pull/7/head", "work")
    return head


def snapshot(library: Path) -> dict[str, tuple[bytes, int]]:
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in library.rglob("*") if path.is_file()}


def record(library: Path, slug: str) -> dict[str, object]:
    found = yaml.safe_load((library / "patches" / slug / "patch.yaml").read_text())
    assert isinstance(found, dict)
    return found


def test_a_pull_request_is_frozen_and_split(take: Import, library: Path, upstream: GitRepository) -> None:
    head = pull(upstream)
    (patch,) = take("#7").patches
    assert (patch.slug, patch.state, patch.arrival.native) == ("heal-the-fault", "new", ("csrc/x.cu",))
    about = record(library, "heal-the-fault")
    assert about["title"] == "Heal the fault"
    assert about["why"] == "It hurt."
    assert about["author"] == "Ada Author <ada@example.org>"
    assert about["upstream-status"] == "Submitted [pull/7]"
    assert about["remove-when"] == "merged(7)"
    assert about["imported"] == {"from": "pull/7", "commit": head, "base": upstream.head()}
    folder = library / "patches/heal-the-fault"
    text, aside = ((folder / f"heal-the-fault{kind}.patch").read_text() for kind in ("", ".aside"))
    assert ("b/v/x.py" in text, "b/csrc/x.cu" in text, "b/tests/test_x.py" in text) == (True, True, False)
    assert ("b/v/x.py" in aside, "b/tests/test_x.py" in aside) == (False, True)
    assert "From: Ada Author <ada@example.org>\nDate: Tue, 14 Nov 2023 " in text
    assert "needs a native build: csrc/x.cu" in (folder / "patch.yaml").read_text()
    assert check_files((library,)) == ()


def test_a_second_import_changes_no_byte_whatever_a_person_did(
    take: Import, library: Path, upstream: GitRepository
) -> None:
    pull(upstream)
    take("pull/7", add=True)
    folder = library / "patches/heal-the-fault"
    (folder / "patch.yaml").write_text((folder / "patch.yaml").read_text().replace("It hurt.", "It hurt us."))
    (folder / "heal-the-fault.patch").write_text((folder / "heal-the-fault.patch").read_text() + "\n")
    before = snapshot(library)
    report = take("#7", add=True)
    assert ([patch.state for patch in report.patches], report.added_to) == (["unchanged"], None)
    assert snapshot(library) == before


def test_a_pull_request_that_moved_is_refused_and_taken_when_asked_for(
    take: Import, library: Path, upstream: GitRepository
) -> None:
    old = pull(upstream)
    take("#7")
    path = library / "patches/heal-the-fault/patch.yaml"
    path.write_text(path.read_text() + 'when: "vllm >= 0.1"   # mine\n')
    new = pull(upstream, text="dix", message="Cure the fault")
    before = snapshot(library)
    with pytest.raises(
        RequestError, match=f"was imported from pull/7 at {old[:12]}, which is {new[:12]} now"
    ) as caught:
        take("#7")
    assert "--update" in caught.value.hint
    assert snapshot(library) == before
    assert [patch.state for patch in take("#7", update=True).patches] == ["updated"]
    about = record(library, "heal-the-fault")
    assert (about["imported"]["commit"], about["when"]) == (new, "vllm >= 0.1")  # type: ignore[index]
    assert "# mine" in path.read_text()
    assert "+dix" in path.with_name("heal-the-fault.patch").read_text()
    after = snapshot(library)
    assert [patch.state for patch in take("#7", update=True).patches] == ["unchanged"]
    assert snapshot(library) == after


def test_it_is_added_to_the_series_and_applies(
    take: Import, toolkit: Toolkit, library: Path, upstream: GitRepository
) -> None:
    pull(upstream)
    recipe = library / "recipes/product/recipe.yaml"
    assert take("#7", add=True, exclude=("csrc/**",)).added_to == recipe
    assert recipe.read_text() == RECIPE.format(url=upstream.url).replace("[]", "[heal-the-fault]")
    result = apply_recipe(toolkit, ApplyRequest(recipe)).result
    assert [(one.outcome, one.files) for one in result.records] == [("clean", ("v/x.py",))]


def test_a_commit_of_upstream_s_own_is_a_backport(take: Import, library: Path, upstream: GitRepository) -> None:
    commit = upstream.commit({"v/x.py": TEXT.replace("line 10", "zehn")}, "[Core] Ten (#12)\n\nIn German.")
    (patch,) = take(commit[:10], name="ten").patches
    about = record(library, "ten")
    assert (about["upstream-status"], about["remove-when"]) == (f"Backport [{commit}]", f"contains({commit})")
    assert about["imported"] == {
        "from": commit[:10],
        "commit": commit,
        "base": upstream.find(f"{commit}~1"),
        "merged-as": commit,
    }
    assert patch.arrival.title == "[Core] Ten (#12)"
    assert take(commit[:10]).patches[0].state == "unchanged"


def test_a_pull_request_that_was_squashed_is_known_by_its_change(
    take: Import, library: Path, upstream: GitRepository
) -> None:
    pull(upstream)
    squashed = upstream.commit({"v/x.py": TEXT.replace("line 10", "zehn"), "csrc/x.cu": "y\n"}, "Heal (#7)")
    upstream.commit({"v/x.py": "more\n" + TEXT.replace("line 10", "zehn")}, "later")
    take("#7")
    about = record(library, "heal-the-fault")
    assert about["upstream-status"] == f"Backport [{squashed}]"
    assert (about["imported"]["state"], about["imported"]["merged-as"]) == ("merged", squashed)  # type: ignore[index]


def test_a_pull_request_that_upstream_changed_on_the_way_in_is_known_by_its_number(
    take: Import, library: Path, upstream: GitRepository
) -> None:
    pull(upstream)
    upstream.commit({"docs/x.md": "y\n"}, "Not it (#7)")
    merged = upstream.commit({"v/x.py": TEXT.replace("line 10", "zehn, fast")}, "Heal it (#7)")
    upstream.commit({"v/x.py": TEXT}, 'Revert "Heal it (#7)" (#8)')
    take("#7")
    assert record(library, "heal-the-fault")["imported"]["merged-as"] == merged  # type: ignore[index]


def test_a_pull_request_that_was_merged_with_a_merge_commit_is_a_backport(
    take: Import, library: Path, upstream: GitRepository
) -> None:
    head = pull(upstream)
    fork = upstream.head()
    upstream.commit({"docs/x.md": "y\n"})
    upstream.merge("work")
    take("#7")
    assert record(library, "heal-the-fault")["imported"] == {
        "from": "pull/7",
        "commit": head,
        "base": fork,
        "state": "merged",
        "merged-as": head,
    }


def test_a_file_is_frozen_by_its_sha256_and_its_header_kept(take: Import, library: Path, tmp_path: Path) -> None:
    path = tmp_path / "fix.patch"
    path.write_text(MAIL)
    (patch,) = take(path, library).patches
    assert patch.slug == "count-ten"
    about = record(library, "count-ten")
    assert about["imported"] == {"from": "fix.patch", "sha256": hashlib.sha256(MAIL.encode()).hexdigest()}
    assert (about["author"], about["why"], about["upstream-status"]) == (
        '"J. Doe" <j@example.org>',
        "In German.",
        "Pending",
    )
    text = (library / "patches/count-ten/count-ten.patch").read_text()
    assert text.startswith(MAIL[: MAIL.index("---\n") + 4] + "diff --git a/v/x.py b/v/x.py\n")
    assert take(path, library).patches[0].state == "unchanged"
    path.write_text(MAIL.replace("+zehn", "+dix"))
    with pytest.raises(RequestError, match=r"was imported from fix\.patch at"):
        take(path, library)


def test_a_mailbox_becomes_a_patch_a_mail_each_behind_the_one_before(
    take: Import, library: Path, toolkit: Toolkit, tmp_path: Path
) -> None:
    path = tmp_path / "series.mbox"
    second = MAIL.replace("line 10", "zehn").replace("+zehn", "+dix").replace("German", "French")
    third = second.replace("-zehn\n+dix", "-dix\n+ten").replace("Count: ten", "Count in English")
    cover = MAIL[: MAIL.index("---\n")].replace("1/2", "0/2")
    path.write_text(cover + "\n" + MAIL + second + third)
    report = take(path, add=True)
    assert [patch.slug for patch in report.patches] == ["count-ten", "count-ten-2", "count-in-english"]
    assert [record(library, patch.slug).get("requires") for patch in report.patches] == [
        None,
        ["count-ten"],
        ["count-ten-2"],
    ]
    assert record(library, "count-ten-2")["imported"]["part"] == 2  # type: ignore[index]
    result = apply_recipe(toolkit, ApplyRequest(library / "recipes/product/recipe.yaml")).result
    assert [one.outcome for one in result.records] == ["clean"] * 3
    assert [patch.state for patch in take(path, add=True).patches] == ["unchanged"] * 3
    assert [patch.slug for patch in take(path, name="mine").patches] == ["mine-1", "mine-2", "mine-3"]


@pytest.mark.parametrize(
    "name",
    [
        "/usr/local/lib/python3.12/dist-packages/v/x.py",
        "a/usr/local/lib/python3.12/site-packages/v/x.py",
        "v/x.py",
        "a/v/x.py",
    ],
)
def test_names_become_paths_of_the_tree(
    take: Import, library: Path, toolkit: Toolkit, tmp_path: Path, name: str
) -> None:
    path = tmp_path / "fix.diff"
    other = f"b/{name[2:]}" if name.startswith("a/") else name
    path.write_text(DIFF.replace("a/v/x.py", name).replace("b/v/x.py", other))
    assert take(path, add=True).patches[0].slug == "fix"
    assert "diff --git a/v/x.py b/v/x.py\n" in (library / "patches/fix/fix.patch").read_text()
    result = apply_recipe(toolkit, ApplyRequest(library / "recipes/product/recipe.yaml")).result
    assert [one.outcome for one in result.records] == ["clean"]


def test_a_patch_file_with_windows_line_ends_still_fits_both_kinds_of_target(
    take: Import, library: Path, upstream: GitRepository, toolkit: Toolkit, tmp_path: Path
) -> None:
    path = tmp_path / "fix.diff"
    path.write_bytes(DIFF.replace("\n", "\r\n").encode())
    take(path, add=True)
    recipe = library / "recipes/product/recipe.yaml"
    assert [one.outcome for one in apply_recipe(toolkit, ApplyRequest(recipe)).result.records] == ["clean"]
    upstream.commit({"v/x.py": TEXT.replace("\n", "\r\n")})
    assert [one.outcome for one in apply_recipe(toolkit, ApplyRequest(recipe)).result.records] == ["clean"]


def test_a_file_needs_no_upstream(take: Import, library: Path, upstream: GitRepository, tmp_path: Path) -> None:
    recipe = library / "recipes/product/recipe.yaml"
    recipe.write_text(recipe.read_text().replace(upstream.url, "https://git.invalid/nix.git"))
    (tmp_path / "fix.diff").write_text(DIFF)
    assert take(tmp_path / "fix.diff", add=True).added_to == recipe


def test_a_pull_request_that_the_series_has_already_is_told(
    toolkit: Toolkit, library: Path, upstream: GitRepository
) -> None:
    recipe = library / "recipes/product/recipe.yaml"
    recipe.write_text(recipe.read_text().replace("[]", "[{pull: 7}]"))
    pull(upstream)
    told = Told()
    import_patch(Toolkit(toolkit.cache, told), ImportRequest("#7", recipe, add=True))
    assert told.warnings == [
        (f"{recipe}: the series also has pull: 7", "take it out: heal-the-fault is the same change")
    ]


def test_tests_alone_are_the_patch(take: Import, library: Path, tmp_path: Path) -> None:
    path = tmp_path / "tests.diff"
    path.write_text(DIFF.replace("v/x.py", "tests/test_x.py"))
    assert take(path, library).patches[0].arrival.aside == frozenset()


@pytest.mark.parametrize(
    "text", ["", "no diff at all\n", DIFF.replace(" line 11\n", ""), DIFF.replace("v/x.py", "../x")]
)
def test_what_is_no_patch_is_refused_and_nothing_is_left(
    take: Import, library: Path, tmp_path: Path, text: str
) -> None:
    path = tmp_path / "fix.diff"
    path.write_text(text)
    before = snapshot(library)
    with pytest.raises(RequestError):
        take(path, add=True)
    assert (snapshot(library), list((library / "patches").iterdir())) == (before, [])


def test_nothing_is_left_when_the_recipe_cannot_take_it(
    take: Import, library: Path, upstream: GitRepository, tmp_path: Path
) -> None:
    (tmp_path / "fix.diff").write_text(DIFF)
    recipe = library / "recipes/product/recipe.yaml"
    recipe.write_text(f'{{format: 1, name: r, upstream: {{vllm: {{git: "{upstream.url}", ref: main}}}}, series: []}}\n')
    before = snapshot(library)
    with pytest.raises(RequestError, match="is no block of keys"):
        take(tmp_path / "fix.diff", add=True)
    assert (snapshot(library), list((library / "patches").iterdir())) == (before, [])


def test_the_name_of_another_patch_is_not_taken(take: Import, library: Path, tmp_path: Path) -> None:
    (tmp_path / "fix.diff").write_text(DIFF)
    (library / "patches/other").mkdir()
    (library / "patches/other/patch.yaml").write_text("format: 1\ntitle: t\nchange: [{pull: 1}]\n")
    before = snapshot(library)
    with pytest.raises(RequestError, match="is there already, and is another patch"):
        take(tmp_path / "fix.diff", name="other", add=True)
    assert snapshot(library) == before


def test_a_dry_run_tells_and_writes_nothing(take: Import, library: Path, upstream: GitRepository) -> None:
    pull(upstream)
    before = snapshot(library)
    assert [patch.slug for patch in take("#7", add=True, dry_run=True).patches] == ["heal-the-fault"]
    assert snapshot(library) == before


@pytest.mark.parametrize(
    ("what", "options", "message"),
    [
        ("pull/99", {}, "pull/99"),
        ("no-such-ref", {}, "no commit or release named no-such-ref"),
        ("#7", {"upstream": "nix"}, "no upstream named nix"),
        ("#7", {"name": "Not A Slug"}, "must be lower-case"),
        ("main", {}, "is a root commit"),
    ],
)
def test_what_cannot_be_had_is_an_error_of_the_request(
    take: Import, upstream: GitRepository, what: str, options: dict[str, object], message: str
) -> None:
    pull(upstream)
    with pytest.raises(RequestError, match=message):
        take(what, **options)


def test_a_library_alone_has_no_pull_requests_and_no_series(take: Import, library: Path, tmp_path: Path) -> None:
    with pytest.raises(RequestError) as caught:
        take("#7", library)
    assert "name a recipe" in caught.value.hint
    (tmp_path / "fix.diff").write_text(DIFF)
    with pytest.raises(RequestError, match="--add needs a recipe"):
        take(tmp_path / "fix.diff", library, add=True)


def test_a_broken_patch_yaml_of_somebody_s_is_told_only_where_it_is_in_the_way(
    take: Import, library: Path, tmp_path: Path
) -> None:
    (library / "patches/broken").mkdir()
    (library / "patches/broken/patch.yaml").write_text("title: [\n")
    (tmp_path / "fix.diff").write_text(DIFF)
    assert take(tmp_path / "fix.diff", library).patches[0].state == "new"
    with pytest.raises(InvalidFile):
        take(tmp_path / "fix.diff", library, name="broken")


# --- a forge: URLs, and what the API tells ---


@pytest.fixture
def forge(tmp_path: Path, library: Path) -> Iterator[Forge]:
    with serving(tmp_path / "forge") as forge:
        forge.upstream.commit({"v/x.py": TEXT, "tests/test_x.py": "t = 1\n", "csrc/x.cu": "x\n"}, "begin")
        (library / "recipes/product/recipe.yaml").write_text(RECIPE.format(url=forge.git))
        yield forge


def reach(forge: Forge, tmp_path: Path, library: Path, what: str, **options: object) -> ImportReport:
    forge.git  # noqa: B018  # brings the refs of dumb HTTP up to date
    toolkit = Toolkit(Cache(tmp_path / "store"), env={**forge.env, "GITHUB_TOKEN": "t0ken"})
    return import_patch(toolkit, ImportRequest(what, library / "recipes/product/recipe.yaml", **options))  # type: ignore[arg-type]


def test_title_author_state_and_merge_commit_come_from_the_server(forge: Forge, tmp_path: Path, library: Path) -> None:
    pytest.importorskip("github")
    pull(forge.upstream)
    forge.pull(7, "work", title="[Bugfix] Heal: the real title (#7)")
    url = f"{forge.url}/team/product/pull/7"
    (patch,) = reach(forge, tmp_path, library, url).patches
    assert patch.slug == "heal-the-real-title"
    about = record(library, patch.slug)
    assert (about["title"], about["origin"]) == ("[Bugfix] Heal: the real title (#7)", f"{url} by ada")
    assert (about["upstream-status"], about["imported"]["state"]) == (f"Submitted [{url}]", "open")  # type: ignore[index]
    assert "t0ken" not in str(snapshot(library))
    asked = len(forge.asked)
    assert reach(forge, tmp_path, library, "#7").patches[0].state == "unchanged"
    assert not any(path.startswith("/api/") for path, _ in forge.asked[asked:])


def test_a_state_that_changed_is_taken_with_update(forge: Forge, tmp_path: Path, library: Path) -> None:
    pytest.importorskip("github")
    pull(forge.upstream)
    forge.pull(7, "work")
    reach(forge, tmp_path, library, "#7", name="heal")
    diff = (library / "patches/heal/heal.patch").read_bytes()
    forge.pull(7, "work", state="closed", merged=True, merge_commit_sha="a" * 40)
    assert reach(forge, tmp_path, library, "#7", update=True).patches[0].state == "updated"
    assert record(library, "heal")["imported"]["merged-as"] == "a" * 40  # type: ignore[index]
    assert (library / "patches/heal/heal.patch").read_bytes() == diff


def test_a_server_that_refuses_leaves_the_refs(forge: Forge, tmp_path: Path, library: Path) -> None:
    pytest.importorskip("github")
    pull(forge.upstream)
    forge.pulls[7] = 403
    (patch,) = reach(forge, tmp_path, library, "#7").patches
    assert record(library, patch.slug)["title"] == "Heal the fault"


def test_a_url_is_frozen_by_the_sha256_of_what_it_answered(forge: Forge, tmp_path: Path, library: Path) -> None:
    forge.files["/team/product/pull/7.diff"] = DIFF.encode()
    url = f"{forge.url}/team/product/pull/7.diff"
    reach(forge, tmp_path, library, url.replace("http://", "http://me:secret@"), name="heal")
    about = record(library, "heal")
    assert about["imported"] == {"from": url, "sha256": hashlib.sha256(DIFF.encode()).hexdigest()}
    assert about["origin"] == url
    assert "secret" not in str(snapshot(library))
    forge.files["/team/product/pull/7.diff"] = b"<html>"
    with pytest.raises(RequestError, match="holds no diff"):
        reach(forge, tmp_path, library, url)
