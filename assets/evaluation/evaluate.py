"""One evaluation of two policies: from their stored rollouts to the files in its folder."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field

from assets.common.sources import SAMPLING, SOURCES
from assets.common.versions import code_version, fingerprint
from assets.data.known_issues import list_version, load_corrections
from assets.data.stored import load_golds, load_questions, load_rows
from assets.data.strength import load_strength
from assets.evaluation.rivals import before, write_rivals
from assets.evaluation.sets import champion_rollouts, datasets_of, locate, policy_rollouts
from assets.rollouts.sets import POINTER, RolloutSet
from resources.forms import Form
from resources.paths import ArtifactRoot
from resources.sandbox import SandboxResource
from text2sql.cli.lineage.scores import NOTE, noted_files
from text2sql.common.artifacts import training_record_file
from text2sql.common.counting import counted
from text2sql.common.json_files import read_if_there, write_json
from text2sql.common.provenance import code_state, sealed
from text2sql.errors import Text2SqlError
from text2sql.evaluation.compare import HELD_OUT
from text2sql.evaluation.known_issues import Correction
from text2sql.evaluation.predictions.writing import submitted_sql, write_submissions
from text2sql.evaluation.report.details import Evaluated, details_of
from text2sql.evaluation.report.files import Grounds, write_report
from text2sql.evaluation.rollout_scores import PolicyRollouts, outcomes_of, score_policies
from text2sql.evaluation.rule_scores import RuleResults, measure_rules
from text2sql.evaluation.scores import BASE, TRAINED, Scores
from text2sql.evaluation.slices import RULE, Strengths, slices_of
from text2sql.judge.rules import EFFICIENCY_DEFINITIONS
from text2sql.questions import Question
from text2sql.rollouts.origin import require_dataset


class ScoresConfig(Form):
    """Which parts of the questions are scored apart, and by which rules."""

    strong: float = Field(
        default=0.75,
        gt=0,
        le=1,
        description="From this reward strength on a question is strong (docs/reward-strength.md).",
    )
    other_rules: bool = Field(
        default=True,
        description="Run the greedy queries and gold once more to compare them by other rules "
        "(multiset, order, Soft-F1) beside the official one.",
    )
    timed_runs: int = Field(
        default=0,
        ge=0,
        le=1000,
        description="How often each greedy match and its gold are timed for VES and R-VES; 0: not "
        "at all. Costs twice as many runs of each, on one worker; needs other_rules.",
    )


@dataclass(frozen=True)
class Evaluation:
    """What is evaluated: the training run on a split; ``metric`` says what the numbers are for."""

    run: str
    split: str
    folder: Path
    metric: str


def evaluate(
    context: dg.AssetExecutionContext,
    what: Evaluation,
    config: ScoresConfig,
    root: ArtifactRoot,
    sandbox: SandboxResource,
) -> Scores:
    """Score the rollouts that the evaluation's folder points at, and write everything beside it."""
    sets = {name: RolloutSet.from_dict(row) for name, row in _pointer(what.folder).items()}
    require_dataset(datasets_of(root, sets))
    located = [locate(root, sets, name) for name in (BASE, TRAINED)]
    policies = [policy_rollouts(sets, found) for found in located]
    drawn = sets[f"{TRAINED} sampled"]
    questions = load_questions(root.path, what.split)
    provenance = _provenance(context, what, drawn) | _issues_list(root) | _base(root, what, sets)
    known = _known(root, what.split, config)
    scores = known.score(questions, policies, drawn.samples, provenance)
    rules = _rules(questions, policies, config, sandbox)
    scores = replace(scores, scores=[*scores.scores, *(rules.scores() if rules else ())])
    write_json(what.folder / "scores.json", scores.to_dict())
    outcomes = outcomes_of(policies[1], drawn.samples)
    write_json(what.folder / "outcomes.json", outcomes)
    others = [policies[0], *champion_rollouts(root, sets)]
    rivals = write_rivals(what.folder, sets, others)
    champion = before(root, scores, outcomes["greedy"], rivals)
    details = details_of(what.run, questions, scores, located, root.path, champion, rules)
    grounds = known.grounds(questions, rules)
    write_report(what.folder, details, located, questions, root.path, grounds)
    _write_note(context, what)
    _write_submissions(root, what, located[1])
    return scores


@dataclass(frozen=True)
class _Known:
    """What is known of a split's questions: reward strength, known issues, what gold returns."""

    strengths: Strengths | None
    corrections: dict[str, Correction]
    empty: set[str]
    failing: set[str]

    def score(
        self,
        questions: list[Question],
        policies: list[PolicyRollouts],
        k: int,
        provenance: dict[str, str],
    ) -> Scores:
        """Score base and trained policy."""
        base, trained = policies
        return score_policies(
            questions,
            base,
            trained,
            k,
            provenance,
            strengths=self.strengths,
            corrections=self.corrections,
            empty=self.empty,
            failing=self.failing,
        )

    def grounds(self, questions: list[Question], rules: RuleResults | None) -> Grounds:
        """Return what a line of the report's trace says beside its rollout."""
        parts = slices_of(questions, self.strengths, self.empty, self.failing)
        return Grounds(parts, self.corrections, rules)


def _known(root: ArtifactRoot, split: str, config: ScoresConfig) -> _Known:
    strength, golds = load_strength(root.path, split), load_golds(root.path, split)
    return _Known(
        strengths=Strengths(strength, config.strong) if strength else None,
        corrections=load_corrections(root.path, split) or {},
        empty={key for key, gold in golds.items() if gold.empty},
        failing={key for key, gold in golds.items() if gold.failing},
    )


def _write_note(context: dg.AssetExecutionContext, what: Evaluation) -> None:
    """Note by whom the evaluation was made, and what its files are, for text2sql lineage."""
    note = {"training_run": what.run, "dagster_run": context.run_id, "code": code_state()}
    write_json(what.folder / NOTE, sealed(note | {"files": noted_files(what.folder)}))


def scores_version(scores: Scores) -> str:
    """Return a version of what scores say, without who measured them and without times."""
    kept = [
        one
        for one in scores.scores
        if not (one.part == RULE and one.name in EFFICIENCY_DEFINITIONS)
    ]
    return fingerprint(scores=replace(scores, scores=kept, provenance={}).to_dict())


def _pointer(folder: Path) -> dict[str, Any]:
    sets = read_if_there(folder / POINTER)
    if not sets:
        asset = "held_out_rollouts" if folder.parent.name == HELD_OUT else "dev_rollouts"
        raise Text2SqlError(f"There is no {folder / POINTER}: materialize {asset} first.")
    return sets


def _rules(
    questions: list[Question],
    policies: list[PolicyRollouts],
    config: ScoresConfig,
    sandbox: SandboxResource,
) -> RuleResults | None:
    if not config.other_rules:
        return None
    with sandbox.open() as box:
        greedy = {policy.name: policy.greedy for policy in policies}
        return measure_rules(questions, greedy, box, config.timed_runs)


def _write_submissions(root: ArtifactRoot, what: Evaluation, trained: Evaluated) -> None:
    """Write the trained policy's greedy answers as BIRD's and Spider's evaluators read them."""
    rows = [Question.from_dict(row["question"]) for row in load_rows(root.path, what.split)]
    sql = submitted_sql(one.rollout for one in trained.greedy)
    files = [what.folder / f"predict_{what.split}{end}" for end in (".json", ".sql")]
    write_submissions(files, rows, sql)


def _provenance(
    context: dg.AssetExecutionContext, what: Evaluation, drawn: RolloutSet
) -> dict[str, str]:
    sampling = f"temperature {drawn.sampling.temperature:g}, top_p {drawn.sampling.top_p:g}"
    return {
        "dataset": drawn.dataset,
        "split": what.split,
        "metric": what.metric,
        "prompt_revision": drawn.prompt_revision,
        "code_version": code_version(*SOURCES["dev_scores"], *SAMPLING),
        "sampling": f"{counted(drawn.samples, 'rollout')}, {sampling}",
        "dagster_run": context.run_id,
    }


def _base(root: ArtifactRoot, what: Evaluation, sets: dict[str, RolloutSet]) -> dict[str, str]:
    """Note where the base is not what the run was trained from, or was asked otherwise."""
    base, trained = (sets[f"{name} greedy"] for name in (BASE, TRAINED))
    record = read_if_there(training_record_file(root.path, what.run))
    begun = str(record.get("base_revision", base.policy_revision))
    found = {"trained_from": begun} if begun != base.policy_revision else {}
    if base.prompt_revision != trained.prompt_revision:
        found["base_prompt_revision"] = base.prompt_revision
    return found


def _issues_list(root: ArtifactRoot) -> dict[str, str]:
    version = list_version(root.path)
    return {"known_issues": version} if version else {}
