"""The dataset: an archive in BIRD's layout, its questions and databases, and its gold results."""

from dataclasses import asdict
from typing import Any

import dagster as dg
import pandas as pd

from assets.checks.expectations import EXAMPLES, merge
from assets.checks.page import report_checks
from assets.checks.split_checks import check_databases_apart, check_questions_apart
from assets.checks.suites import (
    check_databases,
    check_databases_resolve,
    check_descriptions,
    check_gold_answers,
    check_gold_runs,
    check_questions,
    check_tidiness,
)
from assets.checks.view import table
from assets.common.check_specs import check_specs
from assets.common.columns import DATA_TEAM, columns_of, named_columns
from assets.common.sources import SCHEMA, version_for
from assets.common.told import told
from assets.common.versions import code_version
from assets.common.versions import fingerprint as version_of
from assets.data import splits as bird_splits
from assets.data import stored as data
from assets.data.config import BirdConfig, DatabasesConfig, GoldConfig, QuestionsConfig
from assets.data.gold import (
    check_gold_determined,
    describe_golds,
    find_flags,
    gold_frame,
    gold_version,
    renew_golds,
    run_all_golds,
    usable_questions,
    with_flags,
)
from assets.data.own_dataset import own_archive
from resources.paths import ArtifactRoot
from resources.sandbox import SandboxResource
from text2sql.cli.lineage.data import BIRD, DIGESTS
from text2sql.common.files import write_whole
from text2sql.common.json_files import write_json
from text2sql.datasets.fetching.sources import Sources
from text2sql.datasets.gold.checks import DatabaseReport
from text2sql.datasets.reading.bird import load_records
from text2sql.datasets.reading.digests import Digests
from text2sql.datasets.reading.reports import Reports
from text2sql.judge.verdicts import GoldResult
from text2sql.sandbox import Limits

GROUP = "bird"
DATABASES_CODE = code_version("text2sql/datasets/gold/checks.py", *SCHEMA)


@dg.asset(
    group_name=GROUP, owners=DATA_TEAM, code_version=version_for("bird_archive"), kinds={"file"}
)
@told
def bird_archive(
    context: dg.AssetExecutionContext, config: BirdConfig, root: ArtifactRoot
) -> dg.MaterializeResult:
    """A dataset on disk: generated, found, unpacked or downloaded. Its version is its content's."""
    digests = Digests(root.path / BIRD / DIGESTS)
    sources = Sources(root.path, digests, context.log.info)
    splits = bird_splits.find_splits(config, sources, root.path)
    archive = bird_splits.archive_of(config.source, splits, digests)
    digests.save()
    data.store_archive(root.path, archive)
    place = {"folder": str(archive.folder), "fingerprint": archive.fingerprint}
    metadata: dict[str, Any] = {**place, "files read": digests.read}
    for split, layout in splits.items():
        metadata[f"{split} questions"] = str(layout.questions)
        metadata[f"{split} databases"] = len(layout.databases)
    return dg.MaterializeResult(data_version=dg.DataVersion(archive.fingerprint), metadata=metadata)


@dg.asset(
    group_name=GROUP,
    deps=[bird_archive],
    check_specs=check_specs(
        "bird_questions",
        questions_valid=True,
        db_ids_resolve=True,
        questions_tidy=False,
        questions_apart=False,
    ),
    owners=DATA_TEAM,
    code_version=version_for("bird_questions"),
    kinds={"jsonl"},
    metadata=named_columns(
        ("position", "int", "Row of the questions file, from 0."),
        ("question", "object", "key, db_id, database, question, evidence, sql and more."),
        ("reason", "str", "Why the question cannot be used; empty where it can."),
        ("detail", "str", "More about the reason."),
    ),
)
@told
def bird_questions(
    context: dg.AssetExecutionContext, config: QuestionsConfig, root: ArtifactRoot
) -> dg.MaterializeResult:
    """Every question of the splits; those that cannot be used are kept with the reason.

    The dataset becomes the current one only if nothing critical fails.
    """
    archive = own_archive(context, root.path)
    bird_splits.require_unchanged(archive, Digests(root.path / BIRD / DIGESTS))
    frames, questions = {}, {}
    for split, layout in archive.splits.items():
        records = load_records(layout)
        questions[split] = [record.question for record in records]
        data.store_records(root.path, archive, split, records)
        frames[split] = bird_splits.question_frame(records)
    everything = pd.concat(frames.values(), ignore_index=True)
    folder = data.dataset_folder(root.path, archive)
    outcomes = {
        "questions_valid": merge(
            check_questions(frame, config.least, config.most) for frame in frames.values()
        ),
        "db_ids_resolve": check_databases_resolve(everything, config.missing_databases),
        "questions_tidy": merge(check_tidiness(frame) for frame in frames.values()),
        "questions_apart": check_questions_apart(questions),
    }
    if not any(outcome.blocks for outcome in outcomes.values()):
        write_json(root.path / BIRD / data.CURRENT, archive.to_dict())
    return dg.MaterializeResult(
        data_version=dg.DataVersion(
            version_of(dataset=archive.fingerprint, rows=everything.to_dict("records"))
        ),
        metadata={
            "folder": str(folder),
            "questions by split": {split: len(frame) for split, frame in frames.items()},
            "rows by status": bird_splits.count_values(everything["status"]),
        },
        check_results=report_checks(root, folder, "bird_questions", outcomes),
    )


@dg.asset(
    group_name=GROUP,
    deps=[bird_archive],
    check_specs=check_specs(
        "bird_databases", databases_sound=True, descriptions_match=False, databases_apart=False
    ),
    owners=DATA_TEAM,
    code_version=version_for("bird_databases"),
    kinds={"sqlite", "parquet"},
    metadata=columns_of(DatabaseReport, split="str"),
)
@told
def bird_databases(
    context: dg.AssetExecutionContext,
    config: DatabasesConfig,
    root: ArtifactRoot,
    sandbox: SandboxResource,
) -> dg.MaterializeResult:
    """Every database of the splits: whether it is sound, its tables, rows, size and sha256.

    A database is looked into once: what is known of its content serves every later run.
    """
    archive = own_archive(context, root.path)
    digests = Digests(root.path / BIRD / DIGESTS)
    bird_splits.require_unchanged(archive, digests)
    reports = Reports(root.path / BIRD / "reports", DATABASES_CODE, digests, config.indexes)
    with sandbox.open() as box:
        rows = [
            {"split": split} | asdict(report)
            for split, layout in archive.splits.items()
            for report in reports.of(layout.databases, box)
        ]
    digests.save()
    frame = pd.DataFrame(rows)
    folder = data.dataset_folder(root.path, archive)
    write_whole(folder / data.DATABASES, frame.to_parquet(index=False))
    outcomes = {
        "databases_sound": check_databases(frame),
        "descriptions_match": check_descriptions(frame),
        "databases_apart": check_databases_apart(frame, archive.splits),
    }
    return dg.MaterializeResult(
        data_version=dg.DataVersion(version_of(rows=frame.drop(columns="path").to_dict("records"))),
        metadata={
            "databases": len(frame),
            "looked into now": len(reports.inspected),
            "rows": int(frame["rows"].sum()),
            "bytes": int(frame["bytes"].sum()),
            "largest": table(frame.nlargest(EXAMPLES, "bytes").drop(columns=["path", "sha256"])),
        },
        check_results=report_checks(root, folder, "bird_databases", outcomes),
    )


@dg.asset(
    group_name=GROUP,
    deps=[bird_questions, bird_databases],
    check_specs=check_specs(
        "gold_results", gold_runs=True, gold_answers=False, gold_determined=False
    ),
    owners=DATA_TEAM,
    code_version=version_for("gold_results"),
    kinds={"jsonl"},
    metadata=columns_of(GoldResult),
)
@told
def gold_results(
    context: dg.AssetExecutionContext,
    config: GoldConfig,
    root: ArtifactRoot,
    sandbox: SandboxResource,
) -> dg.MaterializeResult:
    """What every gold query returns, run once: status, digests, rows and time.

    A dataset whose results are there already, made by the same code and limit, is not run again.
    """
    archive = own_archive(context, root.path, passed=True)
    bird_splits.require_unchanged(archive, Digests(root.path / BIRD / DIGESTS))
    questions = usable_questions(root.path, archive)
    version = gold_version(archive, questions, config.seconds)
    limits, folder = Limits(seconds=config.seconds), data.dataset_folder(root.path, archive)
    with sandbox.open() as box:
        golds = data.stored_golds(root.path, archive, version)
        if golds is None:
            golds = run_all_golds(context, questions, box, limits)
        else:
            golds = renew_golds(context, questions, golds, box, limits)
        flags = find_flags(root.path, archive, questions, golds, box, limits)
    frame = with_flags(gold_frame(questions, golds), flags)
    outcomes = {
        "gold_runs": check_gold_runs(frame, config.failing),
        "gold_answers": check_gold_answers(frame),
        "gold_determined": check_gold_determined(frame),
    }
    accepted = not outcomes["gold_runs"].blocks
    data.store_golds(root.path, archive, golds, version, accepted)
    results = frame[["key", "status", "digest"]].to_dict("records")
    return dg.MaterializeResult(
        data_version=dg.DataVersion(version_of(results=results)),
        metadata=describe_golds(frame, flags),
        check_results=report_checks(root, folder, "gold_results", outcomes),
    )
