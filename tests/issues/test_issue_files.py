"""The files of the shipped issues say what the harness relies on; a repro it cannot find would be a silent skip."""

import re

import pytest

from tests.issues.support import ISSUES, issue

SLUGS = ("deepgemm-unsupported-arch", "e8m0-scale-dtype")
# What users' logs hold, in their words.
LOGS = {
    "deepgemm-unsupported-arch": (
        "RuntimeError: Assertion error (/deepgemm-src/csrc/apis/hyperconnection.hpp:56): Unsupported architecture"
    ),
    "e8m0-scale-dtype": (
        "RuntimeError: Expected b_scales.scalar_type() == torch::headeronly::ScalarType::Float to be true, "
        "but got false."
    ),
}


@pytest.mark.parametrize("slug", SLUGS)
def test_every_repro_names_a_script_and_an_environment_that_exist(slug: str) -> None:
    for repro in issue(slug)["repros"]:
        assert (ISSUES / slug / repro["script"]).is_file()
        if "environment" in repro:
            assert (ISSUES.parent / "recipes/environments" / f"{repro['environment']}.txt").is_file()


@pytest.mark.parametrize("slug", SLUGS)
def test_the_cheapest_repro_comes_first(slug: str) -> None:
    limits = [repro["timeout_seconds"] for repro in issue(slug)["repros"]]
    assert limits == sorted(limits)


@pytest.mark.parametrize("slug", SLUGS)
def test_the_log_signatures_match_the_error_users_see(slug: str) -> None:
    for pattern in issue(slug)["log-signatures"]:
        assert re.search(pattern, LOGS[slug])


@pytest.mark.parametrize("slug", SLUGS)
def test_the_readme_tells_what_a_pass_does_not_prove(slug: str) -> None:
    text = (ISSUES / slug / "README.md").read_text()
    assert "What a pass proves" in text
    assert "hardware" in text


def test_the_environment_pins_every_requirement_and_names_no_host() -> None:
    text = (ISSUES.parent / "recipes/environments/vllm-cpu.txt").read_text()
    wanted = [line.split(";")[0].strip() for line in text.splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in wanted)
    assert "torch==2.13.0" in wanted
    assert "://" not in text
