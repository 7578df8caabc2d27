"""`patchkit preflight`: a model and its deployment → facts, problems with their arithmetic, what to change."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from patchkit.cli.options import json_option
from patchkit.cli.terminal import emit_json, note, say

if TYPE_CHECKING:
    from patchkit.diagnosis.deployment import Deployment
    from patchkit.diagnosis.preflight import Finding, Preflight

RANKS = click.IntRange(1, 100_000)


@click.command(
    "preflight", short_help="Tell whether a MoE model's config will run on a deployment, and what to change."
)
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--tp", type=RANKS, default=1, help="Tensor parallel size.")
@click.option("--pp", type=RANKS, default=1, help="Pipeline parallel size.")
@click.option("--dp", type=RANKS, default=1, help="Data parallel size.")
@click.option("--pcp", type=RANKS, default=1, help="Prefill context parallel size.")
@click.option("--ep/--no-ep", "expert_parallel", default=False, help="Expert parallelism (vLLM's default: off).")
@click.option("--eplb", is_flag=True, help="Expert-parallel load balancing.")
@click.option("--redundant-experts", type=click.IntRange(0, 100_000), default=0, help="Redundant experts of EPLB.")
@click.option("--arch", metavar="sm_XX", help="Architecture of the devices, such as sm_90 or sm_121.")
@click.option("--kv-dtype", default="auto", help="Data type of the key/value cache.")
@click.option("--quantization", default="", help="--quantization as the server gets it.")
@click.option("--vllm", metavar="VERSION", help="Release of vLLM; rules that changed are asked for this one.")
@click.option("--site-packages", type=click.Path(path_type=Path), help="Read versions and DeepGEMM's kernels there.")
@json_option
def command(config: Path, site_packages: Path | None, as_json: bool, **options: Any) -> int:
    """Tell whether a MoE model will run on a deployment: CONFIG is a config.json or the folder that holds it.

    Every problem shows its arithmetic and what to change. Exits with 0 without problems, 1 with some, 128 when
    CONFIG cannot be read or lacks a number: none is ever assumed.
    """
    from patchkit.workflows.preflight import run_preflight

    preflight = run_preflight(config, _read_deployment(options), site_packages)
    if as_json:
        emit_json(_document(preflight))
    else:
        _print(preflight)
    return 1 if preflight.problems else 0


def _read_deployment(options: dict[str, Any]) -> Deployment:
    from patchkit.diagnosis.deployment import Deployment, parse_arch, parse_release

    arch, vllm = options.pop("arch"), options.pop("vllm")
    return Deployment(**options, arch=parse_arch(arch) if arch else None, vllm=parse_release(vllm) if vllm else None)


def _document(preflight: Preflight) -> dict[str, Any]:
    from dataclasses import asdict

    document = asdict(preflight)
    for finding in (*document["problems"], *document["notes"]):
        del finding["fails"]
    return document


def _print(preflight: Preflight) -> None:
    for finding in preflight.problems:
        _print_finding(click.style("problem", fg="red"), finding)
    for finding in preflight.notes:
        _print_finding(click.style("note", fg="cyan"), finding)
    facts = preflight.facts
    held = facts["experts_per_rank"]
    say(f"experts: {facts['experts']['value']} over ep_size {facts['ep_size']}, {_show_range(held)} a rank")
    say(f"expert size: {facts['expert_size']['value']}, {facts['expert_size_per_rank']:g} a rank")
    memory = facts["memory"]
    say(f"estimate: routed experts of a MoE layer on a rank: {_show_bytes(memory, 'expert')}")
    say(f"estimate: KV cache of a token in a layer on a rank: {_show_bytes(memory, 'kv')}")
    say(f"  left out: {memory['leaves_out']}")
    if installed := facts.get("installed"):
        for name, version in installed.versions.items():
            say(f"installed: {name} {version}")
        for one in installed.deep_gemm:
            carried = ", ".join((*one.machine_code, *one.generates)) or "nothing"
            say(f"installed: {one.file}: {carried} ({one.evidence})")
    for switch in facts.get("switches", ()):
        say(f"{switch.variable} {'reaches' if switch.reaches else 'does not reach'} {switch.site}: {switch.why}")
    count = len(preflight.problems)
    note(f"{count} problem{'s' if count != 1 else ''}" if count else "no problem found")


def _show_bytes(memory: dict[str, Any], what: str) -> str:
    amount = memory["expert_bytes_per_layer" if what == "expert" else "kv_bytes_per_token_and_layer"]
    return f"{'cannot be told' if amount is None else f'{amount} bytes'}: {memory[f'{what}_formula']}"


def _show_range(held: list[int]) -> str:
    return str(held[0]) if held[0] == held[-1] else f"{held[-1]} to {held[0]}"


def _print_finding(kind: str, finding: Finding) -> None:
    say(f"{kind}: {finding.message}")
    say(f"  arithmetic: {finding.arithmetic}")
    if finding.change:
        say(f"  change: {finding.change}")
    if finding.upstream:
        say(f"  vLLM: {finding.upstream}")
