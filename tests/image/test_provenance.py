from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from patchkit.image.image import BaseName
from patchkit.image.overlay import BARE_ROOT, select_overlay
from patchkit.image.provenance import created_time, image_labels, provenance_files
from tests.image.plans import digest, make_plan
from tests.support.repositories import GitRepository

BASE = BaseName("vllm/vllm-openai:v0.26.0", "sha256:" + "b" * 64)


def test_the_file_tells_where_every_byte_comes_from(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, {"vllm/envs.py": "A = 2\n", "csrc/op.cu": "x"})
    overlay = select_overlay(plan, None)
    provenance, lock = provenance_files(plan, [overlay], BASE)
    told = json.loads(provenance.data)
    assert provenance.path == "/opt/patchkit/provenance.json"
    assert (lock.path, lock.data) == ("/opt/patchkit/recipe.lock", b"format: 1\n")
    assert told["tree"] == plan.patched.id
    assert told["upstream"]["commit"] == plan.patched.base.commit.id
    assert told["upstream"]["tree"] == plan.patched.base.id
    assert told["upstream"]["origin"]["location"] == "https://example.org/vllm.git"
    assert told["base"] == {"name": BASE.name, "digest": BASE.digest}
    assert told["lock"]["sha256"] == digest(b"format: 1\n")[7:]
    assert told["left_out"] == ["csrc/op.cu"]
    (patch,) = told["series"]
    assert (patch["patch"], patch["sha256"], patch["outcome"], patch["method"]) == ("guard", "5" * 64, "clean", "exact")
    hashes = {file["path"]: file["sha256"] for file in told["files"]}
    assert hashes[f"{BARE_ROOT}/vllm/envs.py"] == digest(b"A = 2\n")[7:]


def test_a_symlink_is_told_by_its_target(tmp_path: Path) -> None:
    link = GitRepository(tmp_path / "upstream").symlink("envs.py")
    plan = make_plan(tmp_path, {"vllm/link.py": link})
    told = json.loads(provenance_files(plan, [select_overlay(plan, None)], BASE)[0].data)
    assert {"path": f"{BARE_ROOT}/vllm/link.py", "target": "envs.py"} in told["files"]


def test_without_a_lock_there_is_no_lock_file(tmp_path: Path) -> None:
    plan = replace(make_plan(tmp_path, {}), lock_text=b"")
    files = provenance_files(plan, [select_overlay(plan, None)], BASE)
    assert [file.path for file in files] == ["/opt/patchkit/provenance.json"]
    assert json.loads(files[0].data)["lock"] is None


def test_labels_name_the_image_its_source_and_its_base(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, {})
    labels = image_labels(plan, BASE)
    assert labels == {
        "org.opencontainers.image.title": "quickstart",
        "org.opencontainers.image.version": "0.26.0",
        "org.opencontainers.image.revision": plan.patched.base.commit.id,
        "org.opencontainers.image.source": "https://example.org/vllm.git",
        "org.opencontainers.image.base.name": BASE.name,
        "org.opencontainers.image.base.digest": BASE.digest,
        "io.patchkit.recipe": "quickstart",
        "io.patchkit.tree": plan.patched.id,
        "io.patchkit.series": "guard",
        "io.patchkit.lock-sha256": digest(b"format: 1\n")[7:],
    }
    assert created_time(plan) == "2025-06-15T15:06:40Z"
