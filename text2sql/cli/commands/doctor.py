"""``text2sql doctor``: what works on this machine, what does not, and how to fix it."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import partial

import click

from text2sql.cli.doctor import machine
from text2sql.cli.doctor.finding import Check, Finding, State, examine
from text2sql.cli.doctor.installed import check_packages, check_prime_rl, check_python, check_vllm
from text2sql.cli.doctor.policy import check_policy
from text2sql.common.render import neutral

_WIDTH = 20
_CHECKS: dict[str, Check] = {
    "python": check_python,
    "packages": check_packages,
    "sandbox": machine.check_sandbox,
    "disk": machine.check_disk,
    "reporting database": machine.check_reporting,
    "gpu": machine.check_gpu,
    "ports": machine.check_ports,
    "vllm": check_vllm,
    "prime-rl": check_prime_rl,
}


@click.command()
@click.option(
    "--policy",
    "spec",
    metavar="DIR|URL|pocket",
    help="The policy to check; a server is asked to call a tool. Default: the project's champion, "
    "or the pocket policy without one.",
)
@click.option("--model", help="Which model to ask if the server has several; default: its first.")
@click.option("--json", "as_object", is_flag=True, help="Print one JSON object.")
def command(spec: str | None, model: str | None, as_object: bool) -> None:
    """Check this machine and say how to fix what is wrong.

    Each line is ok, warn (missing or limited, but only parts of the project need it) or fail.
    Nothing is changed.

    \b
    Exit status:
      0  nothing failed
      1  something failed
      2  wrong usage
    """
    checks = _CHECKS | {"policy": partial(check_policy, spec, model)}
    findings: list[Finding] = []
    for name, check in checks.items():
        for finding in examine(name, check):
            findings.append(finding)
            if not as_object:
                click.echo(_line(finding))
    failed = any(finding.state is State.FAIL for finding in findings)
    if as_object:
        found = {"ok": not failed, "checks": [asdict(finding) for finding in findings]}
        click.echo(json.dumps(found, indent=1))
    click.get_current_context().exit(int(failed))


def _line(finding: Finding) -> str:
    line = f"{finding.state:<5} {finding.check:<{_WIDTH}}{neutral(finding.found)}"
    return f"{line}\n{'':<6}{'':<{_WIDTH}}-> {neutral(finding.fix)}" if finding.fix else line
