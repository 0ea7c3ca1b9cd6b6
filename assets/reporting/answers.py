"""The champion's answers to the questions that people want answered every day."""

import asyncio
from datetime import date, timedelta
from itertools import count
from typing import Any

import dagster as dg

from assets.common.check_specs import check_specs
from assets.common.columns import REPORTING_TEAM, columns_of_table
from assets.common.failures import fails_in_a_sentence
from assets.common.partitions import days
from assets.common.pools import SAMPLING_POOL
from assets.common.sources import version_for
from assets.promotion.champion import champion_policy, read_champion
from assets.reporting.config import ReportAnswersConfig
from assets.reporting.questions import GROUP, report_questions
from assets.reporting.view import deliver_and_check, describe_day
from resources.delivery import DeliveryResource
from resources.paths import ArtifactRoot
from resources.policy import PolicyResource
from resources.processes import end_step_with_run
from resources.reporting import ReportingDatabase
from resources.sandbox import SandboxResource
from resources.step_pods import sampling_pod
from text2sql.common.artifacts import answering_run_note, day_page, day_rollouts
from text2sql.common.counting import counted
from text2sql.common.files import write_whole
from text2sql.common.json_files import write_json
from text2sql.common.locking import locked
from text2sql.common.provenance import code_state, sealed
from text2sql.errors import Text2SqlError
from text2sql.evaluation.promotion.champion import run_of
from text2sql.reporting.answering.attempt import Answerer
from text2sql.reporting.answering.day import (
    DayAnswer,
    answer_day,
    due_questions,
    require_some_answer,
    result_counts,
)
from text2sql.reporting.delivery.entries import read_entries
from text2sql.reporting.delivery.overview import answer_sentence
from text2sql.reporting.delivery.page import render_page
from text2sql.reporting.model.question import ReportQuestion
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
@fails_in_a_sentence
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

    Each answer is committed by itself: a repeated run only asks what is not answered. If two runs
    answer the same day, the second waits for the first.
    """
    end_step_with_run()
    if not context.has_partition_key:
        raise Text2SqlError(
            "This run has no day: choose one as the partition; text2sql answers run answers today."
        )
    day, log = context.partition_key, context.log
    champion = read_champion(root)
    with reporting.open(root.path) as store, sandbox.open() as box:
        due = due_questions(store, date.fromisoformat(day), config.group)
        for problem in due.unreadable.values():
            log.error(problem)
        asked = counted(len(due.questions), "question is", "questions are")
        log.info(f"{asked} due on {day}, {due.others} on other days")
        _start_run(context, root, store, champion)
        rollouts = day_rollouts(root.path, day)
        with locked(root.make(rollouts) / ".lock", log.info):
            answers = asyncio.run(
                _answer(context, config, root, policy, champion, store, box, due.questions)
            )
        store.finish_run(context.run_id, day, **result_counts(answers))
        entries = list(read_entries(store, store.list_answers(date.fromisoformat(day))))
        page = write_whole(day_page(root.path, day), render_page(day, entries, due.unreadable))
        ids = {answer.question.id for answer in answers}
        mine = [entry for entry in entries if entry.answer.question_id in ids]
        delivered = deliver_and_check(context.run, delivery, store, day, mine)
        log.info(f"delivery: {delivered.description}")
    require_some_answer(answers)
    return describe_day(answers, due.unreadable, mine, config, page, delivered, champion)


async def _answer(
    context: dg.AssetExecutionContext,
    config: ReportAnswersConfig,
    root: ArtifactRoot,
    resource: PolicyResource,
    champion: dict[str, Any],
    store: ReportingStore,
    box: Sandbox,
    questions: list[ReportQuestion],
) -> list[DayAnswer]:
    """Let the champion answer what is not answered, and log each answer as it comes."""
    policy = resource.open(champion["policy"], config.threads)
    done = count(1)
    try:
        if policy.info.revision != champion["revision"]:
            raise Text2SqlError(
                f"The weights in {champion['policy']} are not those that were promoted "
                f"({policy.info.revision} instead of {champion['revision']}): restore them, or "
                "return to another champion with text2sql champion rollback."
            )
        answerer = Answerer(
            policy,
            box,
            resource.settings(champion["policy"]),
            config.sampling(),
            day_rollouts(root.path, context.partition_key),
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
            on_answer=lambda one: context.log.info(
                f"{next(done)} of {len(questions)}: {answer_sentence(one.answer, one.reused)}"
            ),
        )
    finally:
        await policy.close()


def _start_run(
    context: dg.AssetExecutionContext,
    root: ArtifactRoot,
    store: ReportingStore,
    champion: dict[str, Any],
) -> None:
    """Record the run in the tables, and its code and champion beside the pages."""
    named = {"policy": champion["policy"], "training_run": run_of(champion)}
    note = named | {"revision": champion["revision"], "code": code_state()}
    write_json(answering_run_note(root.path, context.run_id), sealed(note))
    store.start_run(
        context.run_id, context.partition_key, policy_revision=champion["revision"], **named
    )
