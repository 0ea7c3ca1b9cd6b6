"""The back-test with Dagster's resources: the policies, the reporting tables and the sandbox."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from resources.forms import TEMPERATURE, TOP_P
from resources.policy import PolicyResource
from resources.reporting import ReportingDatabase
from resources.sandbox import SandboxResource
from text2sql.common.artifacts import back_test_rollouts
from text2sql.errors import Text2SqlError
from text2sql.evaluation.promotion.champion import champion_record
from text2sql.policy.base import Sampling
from text2sql.training.runs import read_training

if TYPE_CHECKING:
    from text2sql.reporting.answering.attempt import Answerer
    from text2sql.reporting.answering.backtest import BackTestVerdict

# The default sampling of ``report_answers``, so that both policies answer as on a normal day.
_SAMPLING = Sampling(TEMPERATURE.default, TOP_P.default)


def back_test_run(
    root: Path,
    run: str,
    dagster_run: str,
    reporting: ReportingDatabase,
    policy: PolicyResource,
    sandbox: SandboxResource,
) -> BackTestVerdict:
    """Return the verdict on a training run's policy; a stored one is reused."""
    from text2sql.reporting.answering.attempt import Answerer
    from text2sql.reporting.answering.backtest import BackTestPolicies, run_back_test

    @asynccontextmanager
    async def answerer(place: str, revision: str) -> AsyncIterator[Answerer]:
        opened, settings = policy.open(place, threads=1), policy.settings(place)
        try:
            if opened.info.revision != revision:
                raise Text2SqlError(
                    f"The weights in {place} are not those that were recorded "
                    f"({opened.info.revision} instead of {revision})."
                )
            folder = back_test_rollouts(root, revision)
            with sandbox.open() as box:
                yield Answerer(opened, box, settings, _SAMPLING, folder, dagster_run_id=dagster_run)
        finally:
            await opened.close()

    policies = BackTestPolicies(champion_record(root), read_training(root, run), answerer)
    return run_back_test(root, run, policies, lambda: reporting.open(root))
