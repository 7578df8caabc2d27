"""preflight: will this model run on this deployment, and what is installed for it?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from packaging.version import InvalidVersion, Version

from patchkit.diagnosis.deployment import Deployment
from patchkit.diagnosis.installed import Installed, read_installed
from patchkit.diagnosis.model_config import read_model_config
from patchkit.diagnosis.preflight import Preflight, examine_deployment
from patchkit.diagnosis.preflight.switches import find_switches


def run_preflight(config: Path, deployment: Deployment, site_packages: Path | None) -> Preflight:
    """Examine a config.json (or its folder) for a deployment; `site_packages` adds what is installed to the facts.

    A vLLM release that was named counts more than the installed one. Raises `RequestError` for what cannot be read.
    """
    installed = read_installed(site_packages) if site_packages else None
    model = read_model_config(config)
    if installed:
        deployment = _with_installed(deployment, installed)
    preflight = examine_deployment(model, deployment)
    if installed:
        preflight.facts["installed"] = installed
    if switches := find_switches(deployment.vllm):
        preflight.facts["switches"] = switches
    return preflight


def _with_installed(deployment: Deployment, installed: Installed) -> Deployment:
    families = installed.find_families()
    found = replace(deployment, deep_gemm=families if installed.deep_gemm or families else None)
    try:
        return replace(found, vllm=deployment.vllm or Version(installed.versions["vllm"]))
    except (KeyError, InvalidVersion):
        return found
