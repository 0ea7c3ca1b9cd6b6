"""The dataset: its files in BIRD's layout, its questions and databases, and its gold results."""

from collections import Counter
from dataclasses import asdict, fields
from functools import partial
from typing import Any

import dagster as dg
import pandas as pd

from assets.checks import suites
from assets.checks.expectations import EXAMPLES, merge
from assets.checks.view import blocked, report_checks, table
from assets.common.check_specs import check_specs
from assets.common.columns import DATA_TEAM, columns_of, named_columns
from assets.common.failures import fails_in_a_sentence
from assets.common.sources import DATABASES, GOLDS, version_for
from assets.data import frames
from assets.data.config import BirdConfig, DatabasesConfig, GoldConfig, QuestionsConfig
from assets.data.own_dataset import own_dataset
from resources.artifact_root import ArtifactRoot
from resources.sandbox import SandboxResource
from text2sql.common.artifacts import database_reports_folder, file_digests, table_rows_file
from text2sql.common.files import write_whole
from text2sql.common.provenance import code_version, fingerprint
from text2sql.datasets import stored
from text2sql.datasets.fetching.sources import Sources
from text2sql.datasets.gold.stored import current_golds
from text2sql.datasets.ingest import dataset_of, find_splits, require_unchanged
from text2sql.datasets.pocket.corpus import CorpusSizes
from text2sql.datasets.reading.database_reports import (
    DatabaseReport,
    DatabaseReports,
    changes_since,
)
from text2sql.datasets.reading.digests import Digests
from text2sql.datasets.reading.layout import require_databases
from text2sql.datasets.reading.questions import load_records
from text2sql.judge.verdicts import GoldResult
from text2sql.sandbox import Limits

data_asset = partial(dg.asset, group_name="bird", owners=DATA_TEAM)
"""An asset of the group that the data team owns."""


@data_asset(code_version=version_for("bird_archive"), kinds={"file"})
@fails_in_a_sentence
def bird_archive(
    context: dg.AssetExecutionContext, config: BirdConfig, root: ArtifactRoot
) -> dg.MaterializeResult:
    """A dataset on disk: generated, found, unpacked or downloaded. Its version is its content's."""
    digests = Digests(file_digests(root.path))
    sources = Sources(root.path, digests, context.log.info)
    places = {split: config.source_of(split) for split in config.splits}
    sizes = CorpusSizes(**config.sizes.model_dump())
    splits = find_splits(places, sources, root.path, config.seed, sizes)
    dataset = dataset_of(config.source, splits, digests)
    digests.save()
    stored.store_latest(root.path, dataset)
    place = {"folder": str(dataset.folder), "fingerprint": dataset.fingerprint}
    metadata: dict[str, Any] = {**place, "files read": digests.read}
    for split, layout in splits.items():
        metadata[f"{split} questions"] = str(layout.questions)
        metadata[f"{split} databases"] = len(layout.databases)
    return dg.MaterializeResult(data_version=dg.DataVersion(dataset.fingerprint), metadata=metadata)


@data_asset(
    deps=[bird_archive],
    check_specs=check_specs(
        "bird_questions",
        questions_valid=True,
        db_ids_resolve=True,
        questions_tidy=False,
        questions_apart=False,
    ),
    code_version=version_for("bird_questions"),
    kinds={"jsonl"},
    metadata=named_columns(
        ("position", "int", "Row of the questions file, from 0."),
        ("question", "object", "key, db_id, database, question, evidence, sql and more."),
        ("reason", "str", "Why the question cannot be used; empty if it can."),
        ("detail", "str", "More about the reason."),
    ),
)
@fails_in_a_sentence
def bird_questions(
    context: dg.AssetExecutionContext, config: QuestionsConfig, root: ArtifactRoot
) -> dg.MaterializeResult:
    """Every question of the splits; those that cannot be used are kept with the reason.

    The dataset becomes the current one only if nothing critical fails.
    """
    dataset = own_dataset(context, root.path)
    require_unchanged(dataset, Digests(file_digests(root.path)))
    for layout in dataset.splits.values() if config.missing_databases < 1 else ():
        require_databases(layout, dataset.folder)
    by_split, questions = {}, {}
    for split, layout in dataset.splits.items():
        records = load_records(layout)
        questions[split] = [record.question for record in records]
        stored.store_records(root.path, dataset, split, records)
        by_split[split] = frames.question_frame(records)
    everything = pd.concat(by_split.values(), ignore_index=True)
    folder = stored.dataset_folder(root.path, dataset)
    rows = everything.to_dict("records")
    checks = {
        "questions_valid": lambda: merge(
            suites.check_questions(frame, config.least, config.most) for frame in by_split.values()
        ),
        "db_ids_resolve": lambda: suites.check_databases_resolve(
            everything, config.missing_databases
        ),
        "questions_tidy": lambda: merge(map(suites.check_tidiness, by_split.values())),
        "questions_apart": lambda: suites.check_questions_apart(questions),
    }
    seen = [config.model_dump(), list(by_split), rows]
    results = report_checks(root, folder, "bird_questions", checks, seen)
    if not blocked(results):
        stored.store_current(root.path, dataset)
    return dg.MaterializeResult(
        data_version=dg.DataVersion(fingerprint(dataset=dataset.fingerprint, rows=rows)),
        metadata={
            "folder": str(folder),
            "questions by split": {split: len(frame) for split, frame in by_split.items()},
            "rows by status": frames.count_values(everything["status"]),
        },
        check_results=results,
    )


@data_asset(
    deps=[bird_archive],
    check_specs=check_specs(
        "bird_databases",
        databases_sound=True,
        databases_same=False,
        descriptions_match=False,
        databases_apart=False,
    ),
    code_version=version_for("bird_databases"),
    kinds={"sqlite", "parquet"},
    metadata=columns_of(DatabaseReport, split="str"),
)
@fails_in_a_sentence
def bird_databases(
    context: dg.AssetExecutionContext,
    config: DatabasesConfig,
    root: ArtifactRoot,
    sandbox: SandboxResource,
) -> dg.MaterializeResult:
    """Every database of the splits: whether it is sound, its tables, rows, size and sha256.

    Each content is inspected once and the report is reused by every later run.
    """
    dataset, digests = own_dataset(context, root.path), Digests(file_digests(root.path))
    require_unchanged(dataset, digests)
    cache, version = database_reports_folder(root.path), code_version(*DATABASES)
    reports = DatabaseReports(cache, version, digests, config.indexes)
    with sandbox.open() as box:
        rows = [
            {"split": split} | asdict(report)
            for split, layout in dataset.splits.items()
            for report in reports.of(layout.databases, box)
        ]
    digests.save()
    frame = pd.DataFrame(rows, columns=["split", *(one.name for one in fields(DatabaseReport))])
    folder = stored.dataset_folder(root.path, dataset)
    write_whole(folder / stored.DATABASES, frame.to_parquet(index=False))
    frame["changed"] = changes_since(table_rows_file(root.path), dataset.source, rows)
    checks = {
        "databases_sound": lambda: suites.check_databases(frame),
        "databases_same": lambda: suites.check_databases_same(frame),
        "descriptions_match": lambda: suites.check_descriptions(frame),
        "databases_apart": lambda: suites.check_databases_apart(frame, dataset.splits),
    }
    seen = [dataset.fingerprint, frame.to_dict("records")]
    largest = frame.sort_values("bytes", ascending=False).head(EXAMPLES)
    content = frame.drop(columns=["path", "changed"]).to_dict("records")
    return dg.MaterializeResult(
        data_version=dg.DataVersion(fingerprint(rows=content)),
        metadata={
            "databases": len(frame),
            "inspected now": len(reports.inspected),
            "rows": int(frame["rows"].sum()),
            "bytes": int(frame["bytes"].sum()),
            "largest": table(largest.drop(columns=["path", "sha256"])),
        },
        check_results=report_checks(root, folder, "bird_databases", checks, seen),
    )


@data_asset(
    deps=[bird_questions, bird_databases],
    check_specs=check_specs(
        "gold_results", gold_runs=True, gold_answers=False, gold_determined=False
    ),
    code_version=version_for("gold_results"),
    kinds={"jsonl"},
    metadata=columns_of(GoldResult),
)
@fails_in_a_sentence
def gold_results(
    context: dg.AssetExecutionContext,
    config: GoldConfig,
    root: ArtifactRoot,
    sandbox: SandboxResource,
) -> dg.MaterializeResult:
    """The result of every gold query, run once: status, digests, rows and time.

    Reuses what the same code has stored of the same dataset with the same limit.
    """
    dataset, limits = own_dataset(context, root.path, passed=True), Limits(seconds=config.seconds)
    require_unchanged(dataset, Digests(file_digests(root.path)))
    questions, code = stored.all_questions(root.path, dataset), code_version(*GOLDS)
    with sandbox.open() as box:
        inputs = root.path, dataset, questions, box, limits, code, context.log.info
        golds, flags, version = current_golds(*inputs)
    frame = frames.with_flags(frames.gold_frame(questions, golds), flags)
    checks = {
        "gold_runs": lambda: suites.check_gold_runs(frame, config.failing),
        "gold_answers": lambda: suites.check_gold_answers(frame),
        "gold_determined": lambda: suites.check_gold_determined(frame),
    }
    folder = stored.dataset_folder(root.path, dataset)
    seen = [config.model_dump(), frame.to_dict("records")]
    results = report_checks(root, folder, "gold_results", checks, seen)
    stored.store_golds(root.path, dataset, golds, version, accepted=not blocked(results))
    content = frame[["key", "status", "digest"]].to_dict("records")
    return dg.MaterializeResult(
        data_version=dg.DataVersion(fingerprint(results=content)),
        metadata={
            "queries": len(frame),
            "by status": frames.count_values(frame["status"]),
            "flags": dict(Counter(flag.flag.value for flag in flags).most_common()),
            "time by database": frames.time_by_database(frame),
            "slowest": table(frame.nlargest(5, "seconds")[["key", "seconds", "row_count", "sql"]]),
        },
        check_results=results,
    )
