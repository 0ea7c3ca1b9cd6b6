"""The back-test: a candidate's and the champion's answers to the verified report questions."""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resources.forms import TEMPERATURE, TOP_P
from resources.paths import ArtifactRoot
from resources.policy import PolicyResource
from resources.reporting import ReportingDatabase
from resources.sandbox import SandboxResource
from text2sql.common.artifacts import back_test_file, back_test_rollouts
from text2sql.common.json_files import read_if_there, write_json
from text2sql.common.provenance import fingerprint
from text2sql.errors import Text2SqlError
from text2sql.evaluation.promotion.champion import champion_record
from text2sql.policy.base import Sampling
from text2sql.policy.places import is_there
from text2sql.training.runs import read_training

if TYPE_CHECKING:
    from text2sql.reporting.model.answer import NewAnswer
    from text2sql.reporting.model.question import ReportQuestion
    from text2sql.reporting.tables.store import ReportingStore

_SAMPLING = Sampling(TEMPERATURE.default, TOP_P.default)
"""The default sampling of ``report_answers``, so that both policies answer as on a normal day."""


@dataclass(frozen=True)
class BackTestVerdict:
    """Whether a candidate passes, why, and the questions on which it differs from the champion."""

    passed: bool
    sentence: str
    flips: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class BackTester:
    """Runs the back-test of a training run with the resources of an asset."""

    root: ArtifactRoot
    reporting: ReportingDatabase
    policy: PolicyResource
    sandbox: SandboxResource

    def verdict(self, run: str, dagster_run: str) -> BackTestVerdict:
        """Return the verdict on a training run's policy; a stored one is reused.

        A candidate passes if there is nothing to compare, and the sentence says so.
        """
        from text2sql.reporting.answering.backtest import (
            askable_questions,
            compare_answers,
        )
        from text2sql.reporting.model.question import database_fingerprint

        champion, training = champion_record(self.root.path), read_training(self.root.path, run)
        if reason := _nothing_to_compare(champion, training):
            return BackTestVerdict(True, f"Skipped: {reason}.")
        with self.reporting.open(self.root.path) as store:
            questions, left_out = askable_questions(store)
            if not questions:
                return BackTestVerdict(True, _skipped(left_out))
            databases = sorted({question.database for question in questions})
            key = fingerprint(
                champion=champion["revision"],
                candidate=training["policy_revision"],
                questions=questions,
                left_out=left_out,
                databases={name: database_fingerprint(Path(name)) for name in databases},
            )
            file = back_test_file(self.root.path, run)
            record = read_if_there(file)
            if record.get("key") != key:
                old, new = champion["revision"], training["policy_revision"]
                before = self._ask(store, champion["policy"], old, questions, dagster_run)
                after = self._ask(store, training["policy"], new, questions, dagster_run)
                found = compare_answers(before, after, left_out)
                record = {
                    "key": key,
                    "champion": champion["training_run"],
                    "champion_revision": old,
                    "candidate_revision": new,
                    "passed": not found.worse,
                    "sentence": str(found),
                    **asdict(found),
                }
                write_json(file, record)
        return BackTestVerdict(record["passed"], record["sentence"], record["flips"])

    def _ask(
        self,
        store: "ReportingStore",
        spec: str,
        revision: str,
        questions: Sequence["ReportQuestion"],
        dagster_run: str,
    ) -> dict[str, "NewAnswer"]:
        """Let one policy answer; its revision must be the recorded one."""
        from text2sql.reporting.answering.attempt import Answerer
        from text2sql.reporting.answering.backtest import answer_verified

        async def answer() -> dict[str, "NewAnswer"]:
            policy = self.policy.open(spec, threads=1)
            try:
                if policy.info.revision != revision:
                    raise Text2SqlError(
                        f"The weights in {spec} are not those that were recorded "
                        f"({policy.info.revision} instead of {revision})."
                    )
                settings = self.policy.settings(spec)
                folder = back_test_rollouts(self.root.path, revision)
                answerer = Answerer(
                    policy, box, settings, _SAMPLING, folder, dagster_run_id=dagster_run
                )
                return await answer_verified(questions, answerer, store.refuse_database)
            finally:
                await policy.close()

        with self.sandbox.open() as box:
            return asyncio.run(answer())


def _nothing_to_compare(champion: dict[str, Any], training: dict[str, Any]) -> str:
    """Say why a candidate cannot be compared with the champion; empty if it can."""
    if not champion:
        return "no champion to compare with yet"
    if champion["revision"] == training["policy_revision"]:
        return "it has the champion's own weights"
    if not is_there(champion["policy"]):
        return f"the champion's weights are gone from {champion['policy']}"
    return ""


def _skipped(left_out: dict[str, str]) -> str:
    if not left_out:
        return "Skipped: no question of the reports has verified SQL."
    return f"Skipped: the databases of the verified questions are gone ({', '.join(left_out)})."
