"""The champion's answers to the questions that people want answered every day."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import dagster as dg

from assets.common.check_specs import check_specs
from assets.common.columns import REPORTING_TEAM, columns_of_table
from assets.common.partitions import days
from assets.common.pools import SAMPLING_POOL
from assets.common.sources import version_for
from assets.common.told import told
from assets.promotion.champion import champion_policy, read_champion
from assets.reporting.config import ReportAnswersConfig
from assets.reporting.delivery import deliver_day
from assets.reporting.questions import GROUP, report_questions
from assets.reporting.view import describe_day, outcome_sentence
from resources.delivery import DeliveryResource
from resources.paths import ArtifactRoot
from resources.policy import PolicyResource
from resources.processes import end_step_with_run
from resources.reporting import ReportingDatabase
from resources.sandbox import SandboxResource
from resources.step_pods import sampling_pod
from text2sql.cli.lineage.answers import run_note
from text2sql.common.counting import counted
from text2sql.common.files import write_whole
from text2sql.common.json_files import write_json
from text2sql.common.locking import locked
from text2sql.common.provenance import code_state, sealed
from text2sql.errors import Text2SqlError
from text2sql.evaluation.promotion.champion import run_of
from text2sql.policy.base import Policy
from text2sql.reporting.answering.attempt import Answerer
from text2sql.reporting.answering.day import Outcome, answer_day
from text2sql.reporting.delivery.entries import Entry, entries
from text2sql.reporting.delivery.page import render_page
from text2sql.reporting.model.answer import AnswerStatus
from text2sql.reporting.model.question import ReportQuestion
from text2sql.reporting.tables.finding import find_answers
from text2sql.reporting.tables.question_table import QuestionTable
from text2sql.reporting.tables.schema import answers as answers_table
from text2sql.reporting.tables.store import ReportingStore
from text2sql.sandbox import Sandbox

CODE_VERSION = version_for("report_answers")


@dg.asset(
    group_name=GROUP,
    partitions_def=days,
    deps=[report_questions, champion_policy],
    check_specs=check_specs(
        "report_answers",
        published_sound=False,
        questions_answered=False,
        candidates_agree=False,
        answers_steady=False,
        verified_hold=False,
        delivered=False,
    ),
    owners=REPORTING_TEAM,
    code_version=CODE_VERSION,
    freshness_policy=dg.FreshnessPolicy.time_window(
        fail_window=timedelta(hours=36), warn_window=timedelta(hours=26)
    ),
    pool=SAMPLING_POOL,
    op_tags=sampling_pod(),
    kinds={"sql"},
    metadata=columns_of_table(answers_table),
)
@told
def report_answers(
    context: dg.AssetExecutionContext,
    config: ReportAnswersConfig,
    root: ArtifactRoot,
    reporting: ReportingDatabase,
    policy: PolicyResource,
    sandbox: SandboxResource,
    delivery: DeliveryResource,
) -> dg.MaterializeResult:
    """The champion's answers of a day in the reporting tables, and a page that shows them.

    Each answer is committed by itself: a run that is repeated asks only what is not answered. Of
    two runs of a day the second waits for the first.
    """
    end_step_with_run()
    day = _day(context)
    champion = read_champion(root)
    with reporting.open(root.path) as store, sandbox.open() as box:
        questions, unreadable = _due(context, config, store)
        _start_run(context, root, store, champion)
        with locked(root.folder("rollouts", "reports", day) / ".lock", context.log.info):
            outcomes = asyncio.run(
                _answer(context, config, root, policy, champion, store, box, questions)
            )
        _finish_run(context, store, outcomes)
        shown = list(entries(store, find_answers(store, date.fromisoformat(day))))
        page = _write_page(root, day, shown, unreadable)
        asked = {outcome.question.id for outcome in outcomes}
        mine = [entry for entry in shown if entry.answer.question_id in asked]
        delivered = deliver_day(context.run, delivery, store, day, mine)
        context.log.info(f"delivery: {delivered.description}")
    _raise_if_all_failed(outcomes)
    return describe_day(outcomes, unreadable, mine, config, page, delivered, champion)


def _day(context: dg.AssetExecutionContext) -> str:
    if not context.has_partition_key:
        raise Text2SqlError(
            "This run has no day: choose one as the partition; text2sql answers run answers today."
        )
    return context.partition_key


def _due(
    context: dg.AssetExecutionContext, config: ReportAnswersConfig, store: ReportingStore
) -> tuple[list[ReportQuestion], dict[str, str]]:
    """Return the questions of the day, and what is wrong with those that make no sense."""
    found = QuestionTable(store).read(config.group or None, enabled_only=True)
    for problem in found.unreadable.values():
        context.log.error(problem)
    if not found.readable:
        of_group = f" in the group {config.group!r}" if config.group else ""
        raise Text2SqlError(
            f"There are no enabled questions{of_group} in {store.name}: "
            "materialize report_questions first, or add one with text2sql questions add; "
            "text2sql questions list shows what is there."
        )
    day = date.fromisoformat(context.partition_key)
    due = [question for question in found.readable if config.group or question.due_on(day)]
    others = len(found.readable) - len(due)
    asked = counted(len(due), "question is", "questions are")
    context.log.info(f"{asked} due on {day}, {others} on other days")
    return due, found.unreadable


async def _answer(
    context: dg.AssetExecutionContext,
    config: ReportAnswersConfig,
    root: ArtifactRoot,
    resource: PolicyResource,
    champion: dict[str, Any],
    store: ReportingStore,
    box: Sandbox,
    questions: Sequence[ReportQuestion],
) -> list[Outcome]:
    """Let the champion answer what is not answered, and log each answer as it comes."""
    policy = resource.open(champion["policy"], config.threads)
    done = count(1)
    try:
        _require_champion(policy, champion)
        answerer = Answerer(
            policy,
            box,
            resource.settings(champion["policy"]),
            config.sampling(),
            root.folder("rollouts", "reports", context.partition_key),
            config.keep_rows,
            run_of(champion),
            context.run_id,
            CODE_VERSION,
        )
        return await answer_day(
            store,
            questions,
            date.fromisoformat(context.partition_key),
            answerer,
            force=config.force,
            concurrency=config.concurrency,
            on_outcome=lambda outcome: context.log.info(
                f"{next(done)} of {len(questions)}: {outcome_sentence(outcome)}"
            ),
        )
    finally:
        await policy.close()


def _require_champion(policy: Policy, champion: dict[str, Any]) -> None:
    """Refuse to answer with other weights than those that were promoted."""
    if policy.info.revision != champion["revision"]:
        raise Text2SqlError(
            f"The weights in {champion['policy']} are not those that were promoted "
            f"({policy.info.revision} instead of {champion['revision']}): "
            "put those back, or go back to another champion with text2sql champion rollback."
        )


def _write_page(
    root: ArtifactRoot, day: str, shown: Sequence[Entry], unreadable: Mapping[str, str]
) -> Path:
    page = render_page(day, shown, unreadable)
    file = root.path / "reports" / f"{day}.html"
    return write_whole(file, page)


def _start_run(
    context: dg.AssetExecutionContext,
    root: ArtifactRoot,
    store: ReportingStore,
    champion: dict[str, Any],
) -> None:
    """Note the run in the tables, and beside the pages by which code and champion it answers."""
    named = {"policy": champion["policy"], "training_run": run_of(champion)}
    note = named | {"revision": champion["revision"], "code": code_state()}
    write_json(run_note(root.path, context.run_id), sealed(note))
    store.start_run(
        context.run_id, context.partition_key, policy_revision=champion["revision"], **named
    )


def _finish_run(
    context: dg.AssetExecutionContext, store: ReportingStore, outcomes: Sequence[Outcome]
) -> None:
    asked = [outcome.answer.status for outcome in outcomes if not outcome.reused]
    store.finish_run(
        context.run_id,
        context.partition_key,
        asked=len(asked),
        answered=asked.count(AnswerStatus.ANSWERED),
        failed=asked.count(AnswerStatus.ERROR),
        reused=len(outcomes) - len(asked),
    )


def _raise_if_all_failed(outcomes: Sequence[Outcome]) -> None:
    """Fail the run where nothing but failures came: then something common to all is broken."""
    if outcomes and all(outcome.answer.status == AnswerStatus.ERROR for outcome in outcomes):
        raise Text2SqlError(
            f"None of {counted(len(outcomes), 'question')} could be answered; the first failed "
            f"with: {outcomes[0].answer.error}"
        )
