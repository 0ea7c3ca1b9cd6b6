"""The back-test: a candidate's and the champion's answers to the verified report questions."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assets.common.versions import fingerprint
from resources.paths import ArtifactRoot
from resources.policy import PolicyResource
from resources.reporting import ReportingDatabase
from resources.sandbox import SandboxResource
from text2sql.common.artifacts import back_test_file
from text2sql.common.json_files import read_if_there, write_json
from text2sql.errors import Text2SqlError
from text2sql.evaluation.promotion.champion import champion_record
from text2sql.policy.base import Sampling
from text2sql.policy.places import is_there
from text2sql.sandbox import check_database
from text2sql.training.start import read_training

if TYPE_CHECKING:
    from text2sql.reporting.model.answer import NewAnswer
    from text2sql.reporting.model.question import ReportQuestion
    from text2sql.reporting.tables.store import ReportingStore

_SAMPLING = Sampling(temperature=1.0, top_p=1.0, max_tokens=2048)
"""As ``report_answers`` draws its candidates where nobody says otherwise."""


@dataclass(frozen=True)
class BackTestVerdict:
    """Whether a candidate passes, why, and the questions on which it differs from the champion."""

    passed: bool
    sentence: str
    flips: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class BackTester:
    """What a back-test works with."""

    root: ArtifactRoot
    reporting: ReportingDatabase
    policy: PolicyResource
    sandbox: SandboxResource

    def verdict(self, run: str, dagster_run: str) -> BackTestVerdict:
        """Return the verdict on a training run's policy; it is held once and then remembered.

        A candidate passes where there is nothing to compare, and the sentence says so.
        """
        champion, training = champion_record(self.root.path), read_training(self.root.path, run)
        if reason := _nothing_to_compare(champion, training):
            return BackTestVerdict(True, f"Skipped: {reason}.")
        with self.reporting.open(self.root.path) as store:
            questions, left_out = _askable(store)
            if not questions:
                return BackTestVerdict(True, _skipped(left_out))
            key = _key(champion, training, questions, left_out)
            file = back_test_file(self.root.path, run)
            record = read_if_there(file)
            if record.get("key") != key:
                found = self._hold(store, champion, training, questions, left_out, dagster_run)
                record = {"key": key, **_compared(champion, training), **found}
                write_json(file, record)
        return BackTestVerdict(record["passed"], record["sentence"], record["flips"])

    def _hold(
        self,
        store: "ReportingStore",
        champion: dict[str, Any],
        training: dict[str, Any],
        questions: Sequence["ReportQuestion"],
        left_out: dict[str, str],
        dagster_run: str,
    ) -> dict[str, Any]:
        from text2sql.reporting.answering.backtest import as_record, compare_answers

        before, after = (
            self._ask(store, spec, revision, questions, dagster_run)
            for spec, revision in (
                (champion["policy"], champion["revision"]),
                (training["policy"], training["policy_revision"]),
            )
        )
        found = compare_answers(before, after, left_out)
        return {"passed": not found.worse, "sentence": str(found), **as_record(found)}

    def _ask(
        self,
        store: "ReportingStore",
        spec: str,
        revision: str,
        questions: Sequence["ReportQuestion"],
        dagster_run: str,
    ) -> dict[str, "NewAnswer"]:
        """Let one policy answer; it must be the one that the records name."""
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
                folder = self.root.folder("rollouts", "back_tests", revision)
                answerer = Answerer(
                    policy, box, settings, _SAMPLING, folder, dagster_run_id=dagster_run
                )
                return await answer_verified(questions, answerer, store.refuse_database)
            finally:
                await policy.close()

        with self.sandbox.open() as box:
            return asyncio.run(answer())


def _compared(champion: dict[str, Any], training: dict[str, Any]) -> dict[str, str]:
    """Name both sides, for those who rely on the verdict later."""
    return {
        "champion": champion["training_run"],
        "champion_revision": champion["revision"],
        "candidate_revision": training["policy_revision"],
    }


def _nothing_to_compare(champion: dict[str, Any], training: dict[str, Any]) -> str:
    """Say why a candidate cannot be compared with the champion; empty where it can."""
    if not champion:
        return "there is no champion yet that it could be worse than"
    if champion["revision"] == training["policy_revision"]:
        return "it has the champion's own weights"
    place = champion["policy"]
    if not is_there(place):
        return f"the champion's weights are gone from {place}"
    return ""


def _askable(store: "ReportingStore") -> tuple[list["ReportQuestion"], dict[str, str]]:
    """Return the verified questions, and why some of them cannot be asked."""
    from text2sql.reporting.answering.backtest import verified_questions
    from text2sql.reporting.tables.questions import QuestionTable

    found, left_out = [], {}
    for question in verified_questions(QuestionTable(store).read(enabled_only=True).readable):
        try:
            check_database(question.database)
        except Text2SqlError as error:
            left_out[question.id] = str(error)
        else:
            found.append(question)
    return found, left_out


def _skipped(left_out: dict[str, str]) -> str:
    if not left_out:
        return "Skipped: no question of the reports has verified SQL."
    return f"Skipped: the databases of the verified questions are gone ({', '.join(left_out)})."


def _key(
    champion: dict[str, Any],
    training: dict[str, Any],
    questions: Sequence["ReportQuestion"],
    left_out: dict[str, str],
) -> str:
    """Name all that the verdict depends on."""
    from text2sql.reporting.model.question import database_fingerprint

    databases = {question.database for question in questions}
    return fingerprint(
        champion=champion["revision"],
        candidate=training["policy_revision"],
        questions=questions,
        left_out=left_out,
        databases={name: database_fingerprint(Path(name)) for name in sorted(databases)},
    )
