"""The back-test: a candidate's and the champion's answers to the verified report questions."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resources.forms import TEMPERATURE, TOP_P
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

_SAMPLING = Sampling(TEMPERATURE.default, TOP_P.default)
"""The default sampling of ``report_answers``, so that both policies answer as on a normal day."""


@dataclass(frozen=True)
class BackTestVerdict:
    """Whether a candidate passes, why, and the questions on which it differs from the champion."""

    passed: bool
    sentence: str
    flips: list[dict[str, Any]] = field(default_factory=list)


def run_back_test(
    root: Path,
    run: str,
    dagster_run: str,
    reporting: ReportingDatabase,
    policy: PolicyResource,
    sandbox: SandboxResource,
) -> BackTestVerdict:
    """Return the verdict on a training run's policy; a stored one is reused.

    A candidate passes if there is nothing to compare, and the sentence says so.
    """
    from text2sql.reporting.answering.attempt import Answerer
    from text2sql.reporting.answering.backtest import (
        answer_verified,
        askable_questions,
        compare_answers,
    )
    from text2sql.reporting.model.question import database_fingerprint

    champion, training = champion_record(root), read_training(root, run)
    old, new = champion.get("revision"), training["policy_revision"]
    if not champion:
        return BackTestVerdict(True, "Skipped: no champion to compare with yet.")
    if old == new:
        return BackTestVerdict(True, "Skipped: it has the champion's own weights.")
    if not is_there(champion["policy"]):
        why = f"the champion's weights are gone from {champion['policy']}"
        return BackTestVerdict(True, f"Skipped: {why}.")
    with reporting.open(root) as store:
        questions, left_out = askable_questions(store)
        if not questions:
            why = "no question of the reports has verified SQL"
            if left_out:
                why = f"the databases of the verified questions are gone ({', '.join(left_out)})"
            return BackTestVerdict(True, f"Skipped: {why}.")
        databases = sorted({question.database for question in questions})
        key = fingerprint(
            champion=old,
            candidate=new,
            questions=questions,
            left_out=left_out,
            databases={name: database_fingerprint(Path(name)) for name in databases},
        )
        record = read_if_there(back_test_file(root, run))
        if record.get("key") == key:
            return BackTestVerdict(record["passed"], record["sentence"], record["flips"])

        async def ask(spec: str, revision: str) -> dict[str, NewAnswer]:
            """Let one policy answer; its revision must be the recorded one."""
            opened = policy.open(spec, threads=1)
            try:
                if opened.info.revision != revision:
                    raise Text2SqlError(
                        f"The weights in {spec} are not those that were recorded "
                        f"({opened.info.revision} instead of {revision})."
                    )
                answerer = Answerer(
                    opened,
                    box,
                    policy.settings(spec),
                    _SAMPLING,
                    back_test_rollouts(root, revision),
                    dagster_run_id=dagster_run,
                )
                return await answer_verified(questions, answerer, store.refuse_database)
            finally:
                await opened.close()

        with sandbox.open() as box:
            before = asyncio.run(ask(champion["policy"], champion["revision"]))
            after = asyncio.run(ask(training["policy"], new))
        found = compare_answers(before, after, left_out)
    about = {"key": key, "champion": champion["training_run"], "champion_revision": old}
    about |= {"candidate_revision": new, "passed": not found.worse, "sentence": str(found)}
    record = about | asdict(found)
    write_json(back_test_file(root, run), record)
    return BackTestVerdict(record["passed"], record["sentence"], record["flips"])
