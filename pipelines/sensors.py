"""What is watched: new data, finished training, declining answers, failed runs. All off by default.

A tick that is repeated, by a second daemon, after a restart or after an error, asks for the same
run under the same run key, and Dagster starts a key once. A tick that fails keeps its cursor: the
next one looks at the same again.
"""

from datetime import date, timedelta
from typing import Any

import dagster as dg

from assets.common.partitions import TRAINING_RUN, training_runs
from pipelines.automation import STARTED_BY, evaluation, retraining
from pipelines.partitions import today
from pipelines.runs.notify import is_ours, notice_of, tell
from resources.automation import AutomationSettings
from resources.delivery import DeliveryResource
from resources.paths import ArtifactRoot
from resources.reporting import ReportingDatabase
from text2sql.common.artifacts import current_dataset_file
from text2sql.common.counting import counted
from text2sql.datasets.stored import load_current
from text2sql.evaluation.promotion.champion import champion_record
from text2sql.reporting.answering.decline import declines, period
from text2sql.reporting.delivery.channels import Notice

WHY = "text2sql/why"
OFF = dg.DefaultSensorStatus.STOPPED
AT_ONCE = 20
"""Trainings that one tick looks at."""


@dg.sensor(
    job=retraining,
    minimum_interval_seconds=60,
    default_status=OFF,
    description="Trains when another dataset has been ingested and passed its checks: a new "
    "training run data-FINGERPRINT of the job retraining, which promotes what is better. The "
    "first tick takes the champion's dataset, or the present one, for known.",
)
def new_training_data(
    context: dg.SensorEvaluationContext, root: ArtifactRoot, automation: AutomationSettings
) -> dg.SensorResult | dg.SkipReason:
    """Ask for a training run on data that nothing was trained on yet."""
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
    "does that anyway: job evaluation, for that training run. The champion stays who it is. The "
    "first tick takes what is trained already for known. Use it or the sensor conditions.",
)
def finished_training(
    context: dg.SensorEvaluationContext, automation: AutomationSettings
) -> dg.SensorResult:
    """Ask for the evaluation of each policy that was trained since the last tick."""
    key, instance = dg.AssetKey("grpo_policy"), context.instance
    if not (context.cursor or "").isdigit():
        latest = instance.fetch_materializations(key, limit=1).records
        start = str(latest[0].storage_id if latest else 0)
        return dg.SensorResult(skip_reason="Watching for trainings from now on.", cursor=start)
    after = dg.AssetRecordsFilter(asset_key=key, after_storage_id=int(context.cursor or 0))
    found = instance.fetch_materializations(after, limit=AT_ONCE, ascending=True).records
    if not found:
        return dg.SensorResult(skip_reason="No training has finished since.")
    there = set(instance.get_dynamic_partitions(TRAINING_RUN))  # one may have been deleted since
    left = [record for record in found if record.partition_key in there]
    new = [record for record in left if not _evaluates_itself(instance, record.run_id)]
    requests = [_evaluation_of(context, automation, record) for record in new]
    cursor = str(found[-1].storage_id)
    if not requests:
        ended = counted(len(left), "training has", "trainings have")
        reason = f"{ended} finished, each evaluated by its own run."
        return dg.SensorResult(skip_reason=reason, cursor=cursor)
    return dg.SensorResult(run_requests=requests, cursor=cursor)


def _evaluates_itself(instance: dg.DagsterInstance, run_id: str) -> bool:
    """Say whether the run that trained a policy is to score it, too."""
    planned = dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED
    events = instance.get_records_for_run(run_id, of_type=planned, limit=1000).records
    keys = {record.asset_key for record in events}
    return dg.AssetKey("dev_scores") in keys


def _evaluation_of(
    context: dg.SensorEvaluationContext, automation: AutomationSettings, record: Any
) -> dg.RunRequest:
    """Ask for one evaluation of each version of a training run's policy."""
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
    "or has dropped (resource automation). Once for a champion in as many days as are looked at.",
)
def declining_answers(
    context: dg.SensorEvaluationContext,
    root: ArtifactRoot,
    reporting: ReportingDatabase,
    automation: AutomationSettings,
    delivery: DeliveryResource,
) -> dg.SensorResult | dg.SkipReason:
    """Ask for a training run when the answers are worse than they should be, or than they were."""
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
        return dg.SkipReason(f"{' '.join(found)} A training was asked for on {asked} already.")
    name, why = f"decline-{last}", " ".join(found)
    key = f"decline-{champion['revision']}-{last}"
    request = _request(context, automation, "retraining", name, key, why)
    facts = {"event": "answers decline", "training_run": name, "reason": why}
    notice = Notice("The answers decline", f"{why}\nTraining run {name} begins.", key, facts)
    context.log.info(tell(delivery, notice, context.log)[1])
    return _adding(name, request, f"{champion['revision']} {last}")


@dg.run_failure_sensor(
    monitor_all_code_locations=True,
    minimum_interval_seconds=30,
    default_status=OFF,
    description="Tells people about each run that failed, and why, on the channels of the resource "
    "delivery (docs/trust.md). A message that is not taken is logged here and changes nothing.",
)
def failed_runs(
    context: dg.RunFailureSensorContext, delivery: DeliveryResource
) -> dg.SkipReason | None:
    """Tell about a run that failed; Dagster notes in the run that this was done.

    All code locations are watched, since a run of the command line belongs to none.
    """
    if not is_ours(_repository(context), context.dagster_run):
        return dg.SkipReason(f"{context.dagster_run.job_name} is no job of this project.")
    notice = notice_of(context.instance, context.dagster_run)
    told, words = tell(delivery, notice, context.log)
    context.log.info(words)
    return None if told else dg.SkipReason(words)


def _request(
    context: dg.SensorEvaluationContext,
    automation: AutomationSettings,
    job: str,
    training_run: str,
    key: str,
    why: str,
) -> dg.RunRequest:
    """Ask for a run of a job for a training run; its config is checked before it is asked for."""
    definition = _repository(context).get_job(job)
    config = automation.run_config(definition)
    dg.validate_run_config(definition, config)
    tags = {STARTED_BY: context.sensor_name, WHY: why}
    return dg.RunRequest(key, config, tags, partition_key=training_run)


def _repository(
    context: dg.SensorEvaluationContext | dg.RunFailureSensorContext,
) -> dg.RepositoryDefinition:
    """Return what Dagster has loaded: a sensor is asked by the repository that holds it."""
    assert context.repository_def is not None
    return context.repository_def


def _adding(name: str, request: dg.RunRequest, cursor: str) -> dg.SensorResult:
    """Ask for a run of a training run that may not be known yet."""
    added = training_runs.build_add_request([name])
    return dg.SensorResult([request], dynamic_partitions_requests=[added], cursor=cursor)


SENSORS = (new_training_data, finished_training, declining_answers, failed_runs)
