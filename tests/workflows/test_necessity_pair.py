"""`repro --leave-one-out` of a pair: a patch may be needed beside one of the two engines that a plugin names only."""

from __future__ import annotations

from pathlib import Path

from patchkit.tools.toolkit import Toolkit
from patchkit.verdict.expectation import Need
from patchkit.workflows.necessity import NecessityRequest, find_necessity
from tests.workflows.pairs import make_pair

RELEASE = ".github/engine-release-tag.commit"
GIVES_B = "--- a/engine/names.txt\n+++ b/engine/names.txt\n@@ -1 +1 @@\n-a\n+a b\n"


def test_both_engines_of_a_pair_are_looked_at(toolkit: Toolkit, tmp_path: Path) -> None:
    pair = make_pair(tmp_path)
    old, new = pair.engines("a\n", "a b\n")
    pair.engine.tag("v1.0.0", old)
    pair.wants("a b", new, **{RELEASE: "v1.0.0\n"})
    folder = tmp_path / "patches" / "engine-note"
    (folder / "b.patch").write_text(GIVES_B)
    text = (folder / "patch.yaml").read_text()
    (folder / "patch.yaml").write_text(text.replace("{file: note.txt, source: note.txt}", "{patch: b.patch}"))
    report = find_necessity(toolkit, NecessityRequest(pair.recipe, "git"))
    assert report.places == (("engine main", "plugin main"), ("engine v1.0.0", "plugin main"))
    found = {removal.patch: removal for removal in report.removals}
    assert found["plugin-note"].need is Need.REMOVABLE
    needed = found["engine-note"]
    assert (needed.need, needed.detail) == (Need.NEEDED, "missing/names is bad without it")
    assert [trial.whole.pair for trial in needed.trials] == [old], "the newer engine has it: nothing to try there"
