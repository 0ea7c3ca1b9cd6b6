"""The champion's answers to the questions that people want answered every day."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field

from assets.checks.view import check_result
from assets.common.check_specs import check_specs
from assets.common.columns import REPORTING_TEAM, columns_of_table
from assets.common.failures import fails_in_a_sentence
from assets.common.partitions import days
from assets.common.plots import records
from assets.common.pools import SAMPLING_POOL
from assets.common.sources import version_for
from assets.promotion.champion import champion_policy
from assets.reporting import checks
from assets.reporting.questions import GROUP, SHOWN, report_questions
from resources.artifact_root import ArtifactRoot
from resources.delivery import DeliveryResource
from resources.forms import MAX_TOKENS, TEMPERATURE, TOP_P, Form, bounded
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
from text2sql.common.provenance import code_state, fingerprint, sealed
from text2sql.errors import Text2SqlError
from text2sql.evaluation.promotion.champion import named, require_champion, run_of
from text2sql.policy.base import Sampling
from text2sql.reporting.answering.attempt import Answerer
from text2sql.reporting.answering.day import DayAnswer, answer_day
from text2sql.reporting.delivery.delivery import Delivery, DeliveryStatus, build_message, deliver
from text2sql.reporting.delivery.entries import Entry, read_entries
from text2sql.reporting.delivery.page import render_page
from text2sql.reporting.model import bounds
from text2sql.reporting.model.answer import AnswerStatus, StoredAnswer
from text2sql.reporting.model.question import ReportQuestion
from text2sql.reporting.tables.questions import QuestionTable
from text2sql.reporting.tables.schema import answers as answers_table
from text2sql.reporting.tables.store import ReportingStore
from text2sql.sandbox import Sandbox

CODE_VERSION = version_for("report_answers")


class ReportAnswersConfig(Form):
    """How the champion answers."""

    group: str = Field(
        default="",
        description="Answer only this schedule group, on any day; empty: every group that is "
        "due on the day.",
    )
    force: bool = Field(default=False, description="Ask again what was answered or given up.")
    most_hours: float = bounded(bounds.MOST_HOURS)
    most_attempts: int = bounded(bounds.MOST_ATTEMPTS)
    least_answered: float = bounded(bounds.LEAST_ANSWERED)
    least_agreement: float = bounded(bounds.LEAST_AGREEMENT)
    temperature: float = bounded(TEMPERATURE)
    top_p: float = bounded(TOP_P)
    max_tokens: int = bounded(MAX_TOKENS)
    keep_rows: int = bounded(bounds.KEEP_ROWS)
    concurrency: int = bounded(bounds.CONCURRENCY)
    threads: int = bounded(bounds.THREADS)

    def sampling(self) -> Sampling:
        """Return how queries are sampled."""
        return Sampling(self.temperature, self.top_p, self.max_tokens)


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
    champion = require_champion(root.path)
    with reporting.open(root.path) as store, sandbox.open() as box:
        enabled = QuestionTable(store).read(config.group or None, enabled_only=True)
        if not enabled.readable:
            in_group = f" in the group {config.group!r}" if config.group else ""
            raise Text2SqlError(
                f"No questions are enabled{in_group} in {store.name}: materialize report_questions "
                "first, or add one with text2sql questions add; text2sql questions list shows all."
            )
        for problem in enabled.unreadable.values():
            log.error(problem)
        at = date.fromisoformat(day)
        due = [question for question in enabled.readable if config.group or question.due_on(at)]
        others = len(enabled.readable) - len(due)
        log.info(f"{counted(len(due), 'question is', 'questions are')} due on {day}, "
                 f"{others} on other days")  # fmt: skip
        by = {"policy": champion["policy"], "training_run": run_of(champion)}
        store.start_run(context.run_id, day, policy_revision=champion["revision"], **by)
        note = by | {"revision": champion["revision"], "code": code_state()}
        write_json(answering_run_note(root.path, context.run_id), sealed(note))
        rollouts = day_rollouts(root.path, day)
        with locked(root.make(rollouts) / ".lock", log.info):
            answers = asyncio.run(_answer(context, config, root, policy, champion, store, box, due))
        asked = [one.answer.status for one in answers if not one.reused]
        store.finish_run(
            context.run_id,
            day,
            asked=len(asked),
            answered=asked.count(AnswerStatus.ANSWERED),
            failed=asked.count(AnswerStatus.ERROR),
            reused=len(answers) - len(asked),
        )
        entries = list(read_entries(store, store.list_answers(at)))
        page = write_whole(day_page(root.path, day), render_page(day, entries, enabled.unreadable))
        ids = {answer.question.id for answer in answers}
        mine = [entry for entry in entries if entry.answer.question_id in ids]
        backfill = "dagster/backfill" in context.run.tags
        delivered = _delivered(delivery, store, day, mine, backfill)
        log.info(f"delivery: {delivered.description}")
    if answers and all(one.answer.status == AnswerStatus.ERROR for one in answers):
        raise Text2SqlError(  # all have a common cause
            f"None of {counted(len(answers), 'question')} could be answered; the first failed "
            f"with: {answers[0].answer.error}"
        )
    warnings = {e.answer.question_id: e.difference.warning for e in mine if e.difference}
    found = [one.answer for one in answers]
    frame = checks.answers_frame(found, warnings, enabled.unreadable)
    results = [[answer.question_id, answer.status, answer.digest, answer.sql] for answer in found]
    return dg.MaterializeResult(
        metadata=_metadata(answers, enabled.unreadable, page, champion),
        check_results=[
            check_result("published_sound", checks.check_published(frame)),
            check_result("questions_answered", checks.check_answered(frame, config.least_answered)),
            check_result("candidates_agree", checks.check_agreement(frame, config.least_agreement)),
            check_result("answers_steady", checks.check_steady(frame)),
            check_result("verified_hold", checks.check_verified(frame)),
            delivered,
        ],
        data_version=dg.DataVersion(fingerprint(answers=results)),
    )


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
        async with asyncio.timeout(config.most_hours * 3600):
            return await answer_day(
                store,
                questions,
                date.fromisoformat(context.partition_key),
                answerer,
                force=config.force,
                most_attempts=config.most_attempts,
                concurrency=config.concurrency,
                on_answer=lambda one: context.log.info(
                    f"{next(done)} of {len(questions)}: {_sentence(one.answer, one.reused)}"
                ),
            )
    except TimeoutError as error:
        raise Text2SqlError(
            f"The day took more than {config.most_hours:g} hours and was stopped: the answers so "
            "far are stored, and the next run goes on. To allow more, set most_hours."
        ) from error
    finally:
        await policy.close()


def _sentence(answer: StoredAnswer, reused: bool) -> str:
    """Return an answer as a line of the log."""
    agree = "" if answer.share is None else f", {answer.votes} of {answer.candidates} agree"
    before = " before" if reused else ""
    if reused and answer.status != AnswerStatus.ANSWERED:
        before = f" after {answer.attempts} attempts, not asked again without force"
    error = f": {answer.error}" if answer.error else ""
    return f"{answer.question_id}: {answer.status.replace('_', ' ')}{before}{agree}{error}"


def _metadata(
    answered: Sequence[DayAnswer],
    unreadable: Mapping[str, str],
    page: Path,
    champion: Mapping[str, Any],
) -> dict[str, Any]:
    """Return a day's answers as Dagster shows them: a sentence, numbers and a table."""
    answers = [one.answer for one in answered]
    counts = Counter(answer.status for answer in answers)
    asked = counted(len(answers), "question is", "questions are")
    others = ", ".join(
        f"{counts[status]} {status.replace('_', ' ')}"
        for status in AnswerStatus
        if status is not AnswerStatus.ANSWERED and counts[status]
    )
    dataset = f"judged on dataset {champion.get('dataset', 'unknown')}"
    judged = dataset if run_of(champion) else "not evaluated here"
    rows = [
        {
            "question": answer.question[:200],
            "status": answer.status.value,
            "agreement": "" if answer.share is None else f"{answer.votes} of {answer.candidates}",
            "rows": "" if answer.row_count is None else str(answer.row_count),
            "change": answer.change.value if answer.change else "",
            "answered by": answer.training_run or answer.policy or "",
            "database": Path(answer.database).stem,
            "data": answer.database_fingerprint or "",
            "SQL": (answer.sql or answer.error or "")[:500],
        }
        for answer in answers[:SHOWN]
    ]
    return {
        "what happened": f"{counts[AnswerStatus.ANSWERED]} of {asked} answered"
        + (f"; not to be trusted: {others}." if others else "."),
        "questions": len(answers),
        **{status.value: counts[status] for status in AnswerStatus},
        "unreadable": len(unreadable),
        "reused": sum(one.reused for one in answered),
        "champion": f"{named(champion)}, revision {champion['revision']}, {judged}",
        "answers": records(rows),
        "page": dg.MetadataValue.path(page),
    }


def _delivered(
    resource: DeliveryResource,
    store: ReportingStore,
    day: str,
    entries: Sequence[Entry],
    backfill: bool,
) -> dg.AssetCheckResult:
    """Send a day's answers to the configured channels; the check says what happened.

    A failure raises nothing: the answers are stored, and the next run for the day tries again.
    """
    found: list[Delivery] = []
    passed = True
    try:
        channels = resource.channels()
        if not channels:
            words = "Nothing was sent: no webhook or mail server is configured."
        elif backfill:  # which may be of a whole year
            words = "Nothing was sent: this run belongs to a backfill."
        elif (message := build_message(day, entries, resource.send)) is None:
            words = "Nothing was sent: nothing is new, changed, doubtful or unanswered."
        else:
            found = [deliver(store, message, channel) for channel in channels]
            said = [(f"{one.channel}: {one.status}", one.error) for one in found]
            words = "; ".join(f"{text} ({error})" if error else text for text, error in said)
            passed = not any(o.error or o.status is DeliveryStatus.FAILED for o in found)
    except Text2SqlError as error:
        words, passed = str(error), False
    table = [
        {"channel": one.channel, "state": one.status.value, "error": one.error} for one in found
    ]
    return dg.AssetCheckResult(
        check_name="delivered",
        passed=passed,
        severity=dg.AssetCheckSeverity.WARN,
        description=words,
        metadata={"deliveries": records(table)} if table else {},
    )
