"""What is watched: new data, finished training, declining answers, failed runs, lost runs.

All are off by default, except that lost runs are always failed. A tick that is repeated (by a
second daemon, after a restart or an error) requests the same run under the same run key, and
Dagster starts a key once. A tick that fails keeps its cursor: the next one looks at the same again.
"""

import logging
from datetime import date, timedelta
from typing import Any

import dagster as dg

from assets.common.partitions import PARTITION_TAG, TRAINING_RUN, training_runs
from pipelines.automation import STARTED_BY, evaluation, retraining
from pipelines.partitions import today
from pipelines.runs.progress import RunProgress
from pipelines.runs.records import fail_lost_runs
from resources.artifact_root import ArtifactRoot
from resources.automation import AutomationSettings
from resources.delivery import DeliveryResource
from resources.reporting import ReportingDatabase
from text2sql.common.artifacts import current_dataset_file
from text2sql.common.counting import counted
from text2sql.datasets.stored import load_current
from text2sql.errors import Text2SqlError
from text2sql.evaluation.promotion.champion import champion_record
from text2sql.reporting.answering.decline import declines, period
from text2sql.reporting.delivery.channels import Notice

WHY = "text2sql/why"
OFF = dg.DefaultSensorStatus.STOPPED
AT_ONCE = 20
"""Trainings that one tick handles."""


@dg.sensor(
    job=retraining,
    minimum_interval_seconds=60,
    default_status=OFF,
    description="Trains when another dataset has been ingested and passed its checks: a new "
    "training run data-FINGERPRINT of the job retraining, which promotes a better policy. The "
    "first tick assumes that the champion's dataset, or the present one, is known.",
)
def new_training_data(
    context: dg.SensorEvaluationContext, root: ArtifactRoot, automation: AutomationSettings
) -> dg.SensorResult | dg.SkipReason:
    """Request a training run on data that nothing was trained on yet."""
    if not current_dataset_file(root.path).is_file():
        return dg.SkipReason("No dataset has been ingested yet: materialize bird_questions.")
    found = load_current(root.path).fingerprint
    known = context.cursor or champion_record(root.path).get("dataset") or found
    if found == known:
        return dg.SensorResult(skip_reason=f"The dataset is {known}, as before.", cursor=found)
    name = f"data-{found[:8]}"
    why = f"the dataset is {found} and no longer {known}"
    request = _request(context, automation, "retraining", name, f"data-{found}", why)
    return _adding(name, request, found)


@dg.sensor(
    job=evaluation,
    minimum_interval_seconds=30,
    default_status=OFF,
    description="Evaluates a policy when its training has finished, unless the same Dagster run "
    "does that anyway: job evaluation, for that training run. The champion does not change. The "
    "first tick ignores earlier trainings. Use it or the sensor conditions, not both.",
)
def finished_training(
    context: dg.SensorEvaluationContext, automation: AutomationSettings
) -> dg.SensorResult:
    """Request the evaluation of each policy that was trained since the last tick."""
    key, instance = dg.AssetKey("grpo_policy"), context.instance
    if not (context.cursor or "").isdigit():
        latest = instance.fetch_materializations(key, limit=1).records
        start = str(latest[0].storage_id if latest else 0)
        return dg.SensorResult(skip_reason="Watching for trainings from now on.", cursor=start)
    after = dg.AssetRecordsFilter(asset_key=key, after_storage_id=int(context.cursor or 0))
    found = instance.fetch_materializations(after, limit=AT_ONCE, ascending=True).records
    if not found:
        return dg.SensorResult(skip_reason="No training has finished since.")
    existing = set(instance.get_dynamic_partitions(TRAINING_RUN))  # one may have been deleted since
    left = [record for record in found if record.partition_key in existing]
    new = [record for record in left if not _evaluates_itself(instance, record.run_id)]
    requests = [_evaluation_of(context, automation, record) for record in new]
    cursor = str(found[-1].storage_id)
    if not requests:
        ended = counted(len(left), "training has", "trainings have")
        reason = f"{ended} finished, each evaluated by its own run."
        return dg.SensorResult(skip_reason=reason, cursor=cursor)
    return dg.SensorResult(run_requests=requests, cursor=cursor)


def _evaluates_itself(instance: dg.DagsterInstance, run_id: str) -> bool:
    """Return whether the run that trained a policy also scores it."""
    planned = dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED
    events = instance.get_records_for_run(run_id, of_type=planned, limit=1000).records
    keys = {record.asset_key for record in events}
    return dg.AssetKey("dev_scores") in keys


def _evaluation_of(
    context: dg.SensorEvaluationContext, automation: AutomationSettings, record: Any
) -> dg.RunRequest:
    """Request one evaluation of each version of a training run's policy."""
    version = (record.asset_materialization.tags or {}).get("dagster/data_version", record.run_id)
    key = f"{record.partition_key}:{version}"
    why = f"Dagster run {record.run_id} trained it"
    return _request(context, automation, "evaluation", record.partition_key, key, why)


@dg.sensor(
    job=retraining,
    minimum_interval_seconds=3600,
    default_status=OFF,
    description="Trains, and tells people, when the champion's answers of the last days decline: "
    "the share of questions answered, or of verified questions answered right, is below its bound "
    "or has dropped (resource automation). Once for a champion in that period.",
)
def declining_answers(
    context: dg.SensorEvaluationContext,
    root: ArtifactRoot,
    reporting: ReportingDatabase,
    automation: AutomationSettings,
    delivery: DeliveryResource,
) -> dg.SensorResult | dg.SkipReason:
    """Request a training run when the answers are worse than they should be, or than before."""
    champion, bounds, last = champion_record(root.path), automation.decline_rule(), today()
    if not champion:
        return dg.SkipReason("There is no champion yet whose answers could decline.")
    first = date.fromisoformat(last) - timedelta(days=bounds.days - 1)
    with reporting.open(root.path) as store:
        now = period(store, first, date.fromisoformat(last), champion["revision"])
        before = period(store, first - timedelta(days=bounds.days), first - timedelta(days=1))
    found = declines(now, before, bounds)
    if not found:
        return dg.SkipReason(f"No decline in {counted(bounds.days, 'day')}: {now}.")
    revision, _, asked = (context.cursor or "").partition(" ")
    if revision == champion["revision"] and asked >= first.isoformat():
        return dg.SkipReason(f"{' '.join(found)} A training was already requested on {asked}.")
    name, why = f"decline-{last}", " ".join(found)
    key = f"decline-{champion['revision']}-{last}"
    request = _request(context, automation, "retraining", name, key, why)
    facts = {"event": "answers decline", "training_run": name, "reason": why}
    notice = Notice("The answers decline", f"{why}\nTraining run {name} begins.", key, facts)
    context.log.info(send(delivery, notice, context.log)[1])
    return _adding(name, request, f"{champion['revision']} {last}")


@dg.run_failure_sensor(
    monitor_all_code_locations=True,
    minimum_interval_seconds=30,
    default_status=OFF,
    description="Notifies people of each run that failed, and why, on the channels of the resource "
    "delivery (docs/trust.md). A refused message is logged here and has no other effect.",
)
def failed_runs(
    context: dg.RunFailureSensorContext, delivery: DeliveryResource
) -> dg.SkipReason | None:
    """Notify people of a run that failed; Dagster records in the run that this was done.

    All code locations are watched, since a plain ``dagster job execute`` belongs to none.
    """
    run = context.dagster_run
    assert context.repository_def is not None  # a sensor is evaluated by its repository
    known = context.repository_def.asset_graph.get_all_asset_keys()
    ours = context.repository_def.has_job(run.job_name)
    if not (run.asset_selection <= known if run.asset_selection else ours):
        return dg.SkipReason(f"{run.job_name} is no job of this project.")
    notice = notice_of(context.instance, run)
    delivered, words = send(delivery, notice, context.log)
    context.log.info(words)
    return None if delivered else dg.SkipReason(words)


@dg.sensor(
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Fails the runs whose process is gone, after a reboot for example, and frees their "
    "pools. It starts nothing, so it is on by default.",
)
def lost_runs(context: dg.SensorEvaluationContext) -> dg.SkipReason:
    """Fail the runs that nothing executes any more."""
    # Other launchers, such as that of Kubernetes, answer for their runs themselves.
    local = isinstance(context.instance.run_launcher, dg.DefaultRunLauncher)
    lost = fail_lost_runs(context.instance, local)
    return dg.SkipReason(f"Failed: {', '.join(lost)}." if lost else "All runs have their process.")


def notice_of(instance: dg.DagsterInstance, run: dg.DagsterRun) -> Notice:
    """Return the notice about a failed run: its name, and the reason in a sentence."""
    name, reason = run_name(run), reason_of(instance, run)
    facts = {"event": "run failed", "job": run.job_name, "dagster_run": run.run_id}
    partition = run.tags.get(PARTITION_TAG, "")
    text = f"{reason}\nDagster run {run.run_id}: open it in the UI under Runs."
    return Notice(
        f"Run failed: {name}", text, run.run_id, facts | {"partition": partition, "reason": reason}
    )


def run_name(run: dg.DagsterRun) -> str:
    """Return the name of a run: its job, or its assets, and its partition."""
    name = run.job_name
    if run.asset_selection:
        name = ", ".join(sorted(key.to_user_string() for key in run.asset_selection))
    partition = run.tags.get(PARTITION_TAG)
    return f"{name} ({partition})" if partition else name


def reason_of(instance: dg.DagsterInstance, run: dg.DagsterRun) -> str:
    """Return why a run failed, from its events."""
    progress = RunProgress(run.run_id)
    progress.read(instance)
    return progress.reason()


def send(delivery: DeliveryResource, notice: Notice, log: logging.Logger) -> tuple[bool, str]:
    """Send a notice on every channel; return whether all accepted it, and a report.

    It never raises: a channel that refuses it is logged, and the others still get it.
    """
    try:
        channels = delivery.channels()
    except Text2SqlError as error:
        log.error(f"No notification sent: {error}.")
        return False, f"No notification sent: {error}."
    if not channels:
        return False, "No notification sent: no webhook or mail server is configured."
    words, fine = [], True
    for channel in channels:
        try:
            problem = channel.tell(notice)
        except Exception as error:  # the run has failed, whatever happens here
            problem = str(error) or type(error).__name__
            log.exception(f"{channel.kind}: the notice was not delivered")
        words.append(f"{channel.kind}: {problem or 'sent'}")
        fine = fine and not problem
    return fine, "; ".join(words)


def _request(
    context: dg.SensorEvaluationContext,
    automation: AutomationSettings,
    job: str,
    training_run: str,
    key: str,
    why: str,
) -> dg.RunRequest:
    """Return the request for a run of a job for a training run; its config is checked first."""
    assert context.repository_def is not None  # a sensor is evaluated by its repository
    definition = context.repository_def.get_job(job)
    config = automation.run_config(definition)
    dg.validate_run_config(definition, config)
    tags = {STARTED_BY: context.sensor_name, WHY: why}
    return dg.RunRequest(key, config, tags, partition_key=training_run)


def _adding(name: str, request: dg.RunRequest, cursor: str) -> dg.SensorResult:
    """Return a request for a training run that may not exist yet, and add it."""
    added = training_runs.build_add_request([name])
    return dg.SensorResult([request], dynamic_partitions_requests=[added], cursor=cursor)


SENSORS = (new_training_data, finished_training, declining_answers, failed_runs, lost_runs)
