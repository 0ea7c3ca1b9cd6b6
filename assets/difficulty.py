"""The difficulty filter: what the base policy solves sometimes is what it can learn from."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd
from pydantic import Field

from assets.data import load_current, load_golds, load_questions, write_json, write_rows
from assets.expectations import Outcome, check_result, great_expectations, validate
from assets.partitions import require_training_run
from assets.plots import draw_histogram, plot, records
from assets.sampling import (
    SAMPLING_CODE,
    RolloutSet,
    SamplingConfig,
    describe_rollouts,
    plan_shards,
    read_rollouts,
    require_valid,
    rollout_set,
    sample_shard,
)
from assets.versions import code_version, file_version
from resources.paths import ArtifactRoot
from resources.policy import PolicyResource
from text2sql.difficulty import Difficulty, Kind, rate_questions, usable

POINTER = "base_rollouts.json"
FILTER_CODE = ("assets/difficulty.py", "text2sql/difficulty.py")


class BaseRolloutsConfig(SamplingConfig):
    """How the base policy is sampled on the training questions."""

    max_questions: int = Field(
        default=0, ge=0, description="The first so many usable questions; 0 means all of them."
    )


@dg.config_mapping
def base_rollouts_config(config: BaseRolloutsConfig) -> dict[str, Any]:
    """Let the asset's config be that of its first step."""
    return {"plan_base_rollouts": {"config": config.model_dump()}}


@dg.op(
    ins={"gold_results": dg.In(dg.Nothing)},
    out={"shards": dg.DynamicOut(dict), "sets": dg.Out(list)},
)
def plan_base_rollouts(
    context: dg.OpExecutionContext,
    config: BaseRolloutsConfig,
    root: ArtifactRoot,
    policy: PolicyResource,
) -> Iterator[dg.Output[list[dict[str, Any]]] | dg.DynamicOutput[dict[str, Any]]]:
    """Find out which rollouts are missing and divide them among the shards."""
    require_training_run(context)
    golds = load_golds(root.path, "train")
    questions = [q for q in load_questions(root.path, "train") if usable(q, golds)]
    questions = questions[: config.max_questions or None]
    dataset = load_current(root.path).fingerprint
    wanted = rollout_set(
        policy, None, dataset, "train", questions, config.sampled(), config.samples
    )
    yield dg.Output([wanted.to_dict()], output_name="sets")
    yield from plan_shards(root.path, [wanted], config)


@dg.op
def collect_base_rollouts(sets: list, shards: list, root: ArtifactRoot) -> dg.Output[None]:
    """Say what was sampled, and point at it."""
    (wanted,) = map(RolloutSet.from_dict, sets)
    rollouts = read_rollouts(root.path, wanted)
    require_valid(rollouts)
    write_json(root.folder("rollouts") / POINTER, wanted.to_dict())
    return describe_rollouts(root.path, {"base": (wanted, rollouts)}, shards)


@dg.graph_asset(
    group_name="difficulty",
    description="Rollouts of the base policy on the training questions.",
    config=base_rollouts_config,
    ins={"gold_results": dg.AssetIn(dagster_type=dg.Nothing)},
    code_version=code_version(*SAMPLING_CODE),
    kinds={"jsonl"},
)
def base_rollouts(gold_results: Any) -> Any:
    """Sample the base policy on the training questions, in shards."""
    shards, sets = plan_base_rollouts(gold_results=gold_results)
    return collect_base_rollouts(sets, shards.map(sample_shard).collect())


class TrainingPromptsConfig(dg.Config):
    """What makes a question fit for training."""

    minimum_valid: int = Field(
        default=6, ge=2, le=128, description="With fewer valid rollouts a question is unknown."
    )
    minimum_prompts: int = Field(
        default=16, ge=1, description="With fewer questions there is nothing to train on."
    )


def prompts_folder(root: ArtifactRoot) -> Path:
    """Return the folder of the questions to train on, their gold results and the ratings."""
    return root.folder("prompts")


@dg.asset(
    group_name="difficulty",
    deps=[base_rollouts],
    code_version=code_version(*FILTER_CODE),
    kinds={"jsonl"},
)
def training_prompts(config: TrainingPromptsConfig, root: ArtifactRoot) -> dg.MaterializeResult:
    """The training questions that the base policy solves sometimes, but not always."""
    pointer = json.loads((root.folder("rollouts") / POINTER).read_text(encoding="utf-8"))
    wanted = RolloutSet.from_dict(pointer)
    golds = load_golds(root.path, "train")
    questions = load_questions(root.path, "train")
    asked = [question for question in questions if question.key in set(wanted.keys)]
    ratings = rate_questions(asked, golds, read_rollouts(root.path, wanted), config.minimum_valid)
    kept = {rating.key for rating in ratings if rating.kind is Kind.TRAINABLE}
    folder = prompts_folder(root)
    write_rows(folder / "difficulty.jsonl", (rating.to_dict() for rating in ratings))
    write_rows(folder / "golds.jsonl", (golds[key].to_dict() for key in sorted(kept)))
    prompts = write_rows(folder / "prompts.jsonl", (q.to_dict() for q in asked if q.key in kept))
    about = {"minimum_prompts": config.minimum_prompts, "policy_revision": wanted.policy_revision}
    write_json(folder / "about.json", about | {"kept": len(kept), "asked": len(asked)})
    return dg.MaterializeResult(
        metadata=_describe(folder, ratings, wanted, len(questions)),
        data_version=dg.DataVersion(file_version(prompts, folder / "golds.jsonl")),
    )


def _describe(
    folder: Path, ratings: Sequence[Difficulty], wanted: RolloutSet, questions: int
) -> dict[str, Any]:
    kinds = Counter(str(rating.kind) for rating in ratings)
    solved = Counter(rating.solved for rating in ratings if rating.valid)
    counts = [solved[number] for number in range(wanted.samples + 1)]
    drawing = draw_histogram(counts, range(1, wanted.samples))
    rows = [{"kind": str(kind), "questions": kinds[kind]} for kind in Kind]
    rows[-1]["questions"] += questions - len(ratings)
    return {
        "prompts": kinds[Kind.TRAINABLE],
        "kinds": records(rows),
        "solved": plot(folder / "solved.png", drawing),
        "policy revision": wanted.policy_revision,
        "path": dg.MetadataValue.path(folder),
    }


@dg.asset_check(asset=training_prompts, blocking=True)
def prompts_can_teach(root: ArtifactRoot) -> dg.AssetCheckResult:
    """There are enough prompts, each once, and each is solved sometimes but not always."""
    folder = prompts_folder(root)
    about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    prompts = _rows(folder / "prompts.jsonl", ["key"])
    ratings = _rows(folder / "difficulty.jsonl", ["key", "solved", "valid", "kind"])
    frame = prompts[["key"]].merge(ratings, on="key", how="left")
    return check_result("prompts_can_teach", check_prompts(frame, about["minimum_prompts"]))


def _rows(path: Path, columns: list[str]) -> pd.DataFrame:
    lines = path.read_text(encoding="utf-8").splitlines()
    return pd.DataFrame([json.loads(line) for line in lines], columns=columns)


def check_prompts(frame: pd.DataFrame, minimum: int) -> Outcome:
    """Check the prompts' ratings: ``key``, ``solved`` and ``valid``, a row a prompt."""
    e = great_expectations().expectations
    expectations = [
        e.ExpectTableRowCountToBeBetween(
            min_value=minimum,
            severity="critical",
            description=f"at least {minimum:,} questions are solved sometimes but not always",
        ),
        e.ExpectColumnValuesToBeUnique(
            column="key", severity="critical", description="no prompt occurs twice"
        ),
        e.ExpectColumnValuesToBeBetween(
            column="solved", min_value=1, severity="critical", description="each is solved once"
        ),
        e.ExpectColumnPairValuesAToBeGreaterThanB(
            column_A="valid",
            column_B="solved",
            severity="critical",
            description="none is always solved",
        ),
    ]
    return validate(frame, expectations, ("key", "solved", "valid"))
