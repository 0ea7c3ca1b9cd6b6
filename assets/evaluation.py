"""The scores of the base and the trained policy on the dev questions, and their report."""

from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field

from assets.data import load_current, load_questions, load_rows, write_json
from assets.dev_rollouts import dev_rollouts, evaluation_folder
from assets.known_issues import known_issues, list_version, load_corrections
from assets.partitions import training_runs
from assets.plots import draw_scores, plot, records
from assets.rollout_sets import RolloutSet
from assets.sources import SAMPLING as SAMPLING_CODE
from assets.strength import load_strength, reward_strength
from assets.versions import code_version, fingerprint, read_json
from resources.paths import ArtifactRoot
from text2sql.champion import champion_record
from text2sql.errors import Text2SqlError
from text2sql.evaluation import PolicyRollouts, outcomes_of, score_policies
from text2sql.evaluation_report.details import Before, Evaluated, details_of
from text2sql.evaluation_report.files import PAGE, write_report, write_text
from text2sql.parts import ALL, CORRECTED, SUBSET, Strengths
from text2sql.questions import Question
from text2sql.rollout_origin import require_dataset
from text2sql.rollout_places import read_located
from text2sql.score_table import score_rows
from text2sql.scores import BASE, TRAINED, Outcomes, Scores, compare
from text2sql.submissions import bird_submission, spider_submission

SCORING_CODE = (
    "assets/evaluation.py",
    "text2sql/evaluation.py",
    "text2sql/evaluation_report/details.py",
    "text2sql/evaluation_report/page.py",
    "text2sql/failures/classes.py",
    "text2sql/failures/sql_difference.py",
    "text2sql/known_issues.py",
    "text2sql/parts.py",
    "text2sql/scores.py",
    "text2sql/statistics.py",
    "text2sql/vote_curve.py",
)
DRAWN = (ALL, CORRECTED, SUBSET)
SHOWN = 60
"""Rows of a table that metadata shows at most."""


def read_scores(root: ArtifactRoot, run: str) -> Scores:
    """Return the scores of a training run."""
    row = read_json(evaluation_folder(root, run) / "scores.json")
    if not row:
        raise Text2SqlError(f"The training run {run} has no scores: materialize dev_scores first.")
    return Scores.from_dict(row)


class DevScoresConfig(dg.Config):
    """Which parts of the dev questions are scored apart."""

    strong: float = Field(
        default=0.75,
        gt=0,
        le=1,
        description="From this reward strength on a question is strong (docs/reward-strength.md).",
    )


@dg.asset(
    group_name="evaluation",
    partitions_def=training_runs,
    deps=[dev_rollouts, reward_strength, known_issues],
    code_version=code_version(*SCORING_CODE),
    kinds={"json"},
)
def dev_scores(
    context: dg.AssetExecutionContext, config: DevScoresConfig, root: ArtifactRoot
) -> dg.MaterializeResult:
    """Greedy, voting, pass@k and mean of both policies, by subset, difficulty and strength.

    Where there are known issues, the corrected accuracy stands beside the official one.
    """
    folder = evaluation_folder(root, context.partition_key)
    sets = {name: RolloutSet.from_dict(row) for name, row in _pointer(folder).items()}
    require_dataset(_datasets(root, sets))
    located = [_located(root, sets, name) for name in (BASE, TRAINED)]
    policies = [_policy_rollouts(sets, found) for found in located]
    drawn = sets[f"{TRAINED} sampled"]
    questions = load_questions(root.path, "dev")
    strength = load_strength(root.path, "dev")
    scores = score_policies(
        questions,
        *policies,
        drawn.samples,
        _provenance(context, drawn) | _issues_list(root),
        Strengths(strength, config.strong) if strength else None,
        load_corrections(root.path, "dev"),
    )
    write_json(folder / "scores.json", scores.to_dict())
    outcomes = outcomes_of(policies[1], drawn.samples)
    write_json(folder / "outcomes.json", outcomes)
    before = _before(root, scores, outcomes["greedy"])
    run = context.partition_key
    details = details_of(run, questions, scores, located, root.path, before)
    write_report(folder, details, located, questions, root.path)
    _write_submissions(root, folder, located[1])
    return dg.MaterializeResult(
        metadata=_describe(folder, scores),
        data_version=dg.DataVersion(fingerprint(scores=scores.to_dict() | {"provenance": {}})),
    )


@dg.asset_check(asset=dev_scores)
def scores_complete(
    context: dg.AssetCheckExecutionContext, root: ArtifactRoot
) -> dg.AssetCheckResult:
    """Every question has a valid result of both policies in every setting that was asked for."""
    run = context.run.tags.get("dagster/partition") or last_evaluated(root)
    scores = read_scores(root, run)
    missing = {name: count for name, count in scores.missing.items() if count}
    words = ", ".join(f"{name} {count}" for name, count in missing.items())
    return dg.AssetCheckResult(
        passed=not missing,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"Questions without a valid result: {words or 'none'}, of {scores.questions}.",
        metadata={"training run": run, **_partial(scores)},
    )


def _partial(scores: Scores) -> dict[str, str]:
    """Name the settings of the trained policy that lack questions."""
    settings = {score.setting for score in scores.scores if score.part == ALL}
    found = {setting: scores.partial(TRAINED, setting) for setting in sorted(settings)}
    return {setting: words for setting, words in found.items() if words}


def last_evaluated(root: ArtifactRoot) -> str:
    """Return the training run whose scores are the newest."""
    scores = root.folder("evaluation").glob("*/scores.json")
    newest = max(scores, key=lambda path: path.stat().st_mtime, default=None)
    if newest is None:
        raise Text2SqlError("No training run has been evaluated: materialize dev_scores first.")
    return newest.parent.name


def _pointer(folder: Path) -> dict[str, Any]:
    sets = read_json(folder / "rollouts.json")
    if not sets:
        raise Text2SqlError(f"There is no {folder}/rollouts.json: materialize dev_rollouts first.")
    return sets


def _datasets(root: ArtifactRoot, sets: dict[str, RolloutSet]) -> dict[str, str]:
    """Name the dataset of each set of rollouts and the current one: all must be the same."""
    found = {f"{name} rollouts": drawn.dataset for name, drawn in sets.items()}
    return found | {"the current dataset": load_current(root.path).fingerprint}


def _located(root: ArtifactRoot, sets: dict[str, RolloutSet], name: str) -> Evaluated:
    greedy, sampled = (
        read_located((root.path / "rollouts" / one.folder).glob("*.jsonl"), one.keys, one.samples)
        for one in (sets[f"{name} greedy"], sets[f"{name} sampled"])
    )
    return Evaluated(name, greedy, sampled)


def _policy_rollouts(sets: dict[str, RolloutSet], found: Evaluated) -> PolicyRollouts:
    about = sets[f"{found.name} greedy"]
    greedy, sampled = ([one.rollout for one in kind] for kind in (found.greedy, found.sampled))
    return PolicyRollouts(found.name, about.policy_revision, greedy, sampled, about.dataset)


def _write_submissions(root: ArtifactRoot, folder: Path, trained: Evaluated) -> None:
    """Write the trained policy's greedy answers as BIRD's and Spider's evaluators read them."""
    rows = [Question.from_dict(row["question"]) for row in load_rows(root.path, "dev")]
    sql = {one.rollout.key: one.rollout.sql or "" for one in trained.greedy}
    write_text(folder / "predict_dev.json", bird_submission(rows, sql))
    write_text(folder / "predict_dev.sql", spider_submission(rows, sql))


def _before(root: ArtifactRoot, scores: Scores, greedy: Outcomes) -> Before | None:
    """Compare with the champion as it is now, where it is another one on the same data."""
    champion = champion_record(root.path)
    same_data = champion.get("dataset") == scores.provenance["dataset"]
    if not same_data or champion["revision"] == scores.revisions[TRAINED]:
        return None
    old = champion["outcomes"]
    both = [key for key in greedy if key in old]
    return Before(
        champion["training_run"],
        compare("greedy", "all", "", old, greedy, both),
        [key for key in both if greedy[key] > old[key]],
        [key for key in both if greedy[key] < old[key]],
    )


def _provenance(context: dg.AssetExecutionContext, drawn: RolloutSet) -> dict[str, str]:
    sampling = f"temperature {drawn.sampling.temperature:g}, top_p {drawn.sampling.top_p:g}"
    return {
        "dataset": drawn.dataset,
        "prompt_revision": drawn.prompt_revision,
        "code_version": code_version(*SCORING_CODE, *SAMPLING_CODE),
        "sampling": f"{drawn.samples} rollouts, {sampling}",
        "dagster_run": context.run_id,
    }


def _issues_list(root: ArtifactRoot) -> dict[str, str]:
    version = list_version(root.path)
    return {"known_issues": version} if version else {}


def _describe(folder: Path, scores: Scores) -> dict[str, Any]:
    greedy = scores.find(TRAINED, "greedy")
    base = scores.find(BASE, "greedy")
    return {
        "trained greedy": greedy.value if greedy else 0.0,
        "base greedy": base.value if base else 0.0,
        **_corrected(scores),
        "scores": records(score_rows(scores)[:SHOWN]),
        "greedy accuracy": plot(folder / "scores.png", _drawing(scores)),
        "missing": scores.missing[TRAINED],
        "path": dg.MetadataValue.path(folder / "scores.json"),
        "report": dg.MetadataValue.url((folder / PAGE).resolve().as_uri()),
    }


def _corrected(scores: Scores) -> dict[str, Any]:
    """Return official and corrected accuracy with their denominators, where there are issues."""
    corrected = scores.find(TRAINED, "greedy", CORRECTED, CORRECTED)
    if corrected is None:
        return {}
    return {
        "trained greedy, official": str(scores.find(TRAINED, "greedy")),
        "trained greedy, corrected": str(corrected),
        "known issues": scores.issues,
    }


def _drawing(scores: Scores) -> Any:
    shown = [score for score in scores.scores if score.setting == "greedy" and score.n]
    names = list(dict.fromkeys((s.part, s.name) for s in shown if s.part in DRAWN))
    series = {
        policy: [
            (score.value, score.low, score.high)
            for part, name in names
            if (score := scores.find(policy, "greedy", part, name))
        ]
        for policy in (BASE, TRAINED)
    }
    return draw_scores([(name or "all").replace("_", "\n") for _, name in names], series)
