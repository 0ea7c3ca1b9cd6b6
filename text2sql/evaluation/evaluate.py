"""One evaluation of two policies: from their stored rollouts to the files in its folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from text2sql.common.artifacts import evaluation_folder, held_out_folder, training_record_file
from text2sql.common.counting import counted
from text2sql.common.json_files import read_if_there, write_json
from text2sql.common.provenance import code_state, fingerprint, sealed
from text2sql.datasets.stored import load_current, load_golds, load_questions, load_rows
from text2sql.datasets.strength import load_strength
from text2sql.errors import Text2SqlError
from text2sql.evaluation.known_issues import list_version, load_corrections
from text2sql.evaluation.predictions.writing import submitted_sql, write_submissions
from text2sql.evaluation.promotion.champion import champion_record
from text2sql.evaluation.report.details import Evaluated, PreviousChampion, details_of
from text2sql.evaluation.report.files import Grounds, write_report
from text2sql.evaluation.report.words import champion_name
from text2sql.evaluation.rollout_scores import SAMPLED, PolicyRollouts, outcomes_of, score_policies
from text2sql.evaluation.rule_scores import measure_rules
from text2sql.evaluation.scores import BASE, SINGLE_TURN, TRAINED, Outcomes, Scores, compare
from text2sql.evaluation.slices import RULE, Strengths, slices_of
from text2sql.evaluation.stored import NOTE, OUTCOMES, RIVALS, ROLLOUTS, SCORES, file_versions
from text2sql.judge.rules import EFFICIENCY_DEFINITIONS
from text2sql.questions import Question
from text2sql.rollouts.located import LocatedRollouts, read_located
from text2sql.rollouts.origin import require_dataset, require_policy
from text2sql.rollouts.sets import RolloutSet
from text2sql.sandbox import Sandbox

CHAMPION = "champion"
"""The name of the champion's set of rollouts beside those of the base and the trained policy."""
_SETTINGS = ("greedy", SAMPLED, SINGLE_TURN)


@dataclass(frozen=True)
class Evaluation:
    """What is evaluated: a training run on a split; ``metric`` says what the numbers are for.

    ``dagster_run`` and ``code_version`` name what makes the evaluation.
    """

    run: str
    split: str
    folder: Path
    metric: str
    dagster_run: str
    code_version: str


def first_of_subsets(questions: Sequence[Question], each: int) -> list[Question]:
    """Return the first ``each`` questions of every subset, in order; all if it is 0."""
    seen: Counter[str] = Counter()
    chosen = []
    for question in questions:
        seen[question.subset] += 1
        if not each or seen[question.subset] <= each:
            chosen.append(question)
    return chosen


def champion_set(
    root: Path,
    sets: Mapping[str, RolloutSet],
    ask: Callable[[str], tuple[str, str]],
    warn: Callable[[str], None],
) -> dict[str, RolloutSet]:
    """Return the greedy rollouts that the champion should have in addition to ``sets``.

    Empty if it was evaluated on these questions with these prompts, or is one of the two policies.
    ``ask`` returns the revision and the prompts' revision of a policy. A champion that cannot be
    asked or compared is left out with a warning: the gate then says that it cannot compare.
    """
    champion, trained = champion_record(root), sets[f"{TRAINED} greedy"]
    asked = (champion.get("dataset"), champion.get("prompt_revision"))
    if (
        not champion
        or champion["revision"] in {one.policy_revision for one in sets.values()}
        or asked == (trained.dataset, trained.prompt_revision)
    ):
        return {}
    spec = champion["policy"]
    try:
        revision, prompts = ask(spec)
        if revision != champion["revision"]:
            raise Text2SqlError(
                f"its revision is {revision}, but {champion['revision']} was promoted."
            )
        if prompts != trained.prompt_revision:
            raise Text2SqlError(
                f"its prompts are {prompts} and theirs {trained.prompt_revision}, because it was "
                "made for other agent settings (agent_config.json beside its weights, else the "
                "defaults)."
            )
    except Text2SqlError as error:
        warn(f"The champion {spec} is not asked as well: {error}")
        return {}
    found = replace(trained, policy=spec, policy_revision=revision, prompt_revision=prompts)
    return {f"{CHAMPION} greedy": found}


def read_sets(root: Path, folder: Path, dataset: str) -> dict[str, RolloutSet]:
    """Return the sets of rollouts that an evaluation's folder names.

    Raises Text2SqlError without any, and where one is not of the ``dataset`` (a fingerprint).
    """
    rows = read_if_there(folder / ROLLOUTS)
    if not rows:
        held_out = folder.parent == held_out_folder(root)
        asset = "held_out_rollouts" if held_out else "dev_rollouts"
        raise Text2SqlError(f"There is no {folder / ROLLOUTS}: materialize {asset} first.")
    sets = {name: RolloutSet.from_dict(row) for name, row in rows.items()}
    datasets = {f"{name} rollouts": one.dataset for name, one in sets.items()}
    require_dataset(datasets | {"the current dataset": dataset})
    return sets


def evaluate(
    root: Path, what: Evaluation, strong: float, sandbox: Sandbox | None, timed_runs: int = 0
) -> Scores:
    """Score the stored rollouts on a split, and write everything into the evaluation's folder.

    ``strong`` is the reward strength from which a question is strong. With a ``sandbox`` the greedy
    queries are also judged by the other rules, timed ``timed_runs`` times each. Raises
    Text2SqlError where rollouts are of another policy revision or dataset.
    """
    sets = read_sets(root, what.folder, load_current(root).fingerprint)
    questions, corrections = load_questions(root, what.split), load_corrections(root, what.split)
    strength, golds = load_strength(root, what.split), load_golds(root, what.split)
    strengths = Strengths(strength, strong) if strength else None
    empty = {key for key, gold in golds.items() if gold.empty}
    failing = {key for key, gold in golds.items() if gold.failing}
    located = [_locate(root, sets, name) for name in (BASE, TRAINED)]
    base, trained = policies = [_policy_rollouts(sets, found) for found in located]
    k, provenance = sets[f"{TRAINED} sampled"].samples, _provenance(root, what, sets)
    about = (provenance, strengths, corrections, empty, failing)
    scores = score_policies(questions, base, trained, k, *about)
    rules = None
    if sandbox is not None:
        greedy = {policy.name: policy.greedy for policy in policies}
        rules = measure_rules(questions, greedy, sandbox, timed_runs)
        scores = replace(scores, scores=[*scores.scores, *rules.scores()])
    outcomes, rivals = outcomes_of(trained, k), _rivals(root, sets, base)
    for name, value in ((SCORES, scores.to_dict()), (OUTCOMES, outcomes), (RIVALS, rivals)):
        write_json(what.folder / name, value)
    before = _compare_with_champion(root, scores, outcomes["greedy"], rivals)
    details = details_of(what.run, questions, scores, located, root, before, rules)
    grounds = Grounds(slices_of(questions, strengths, empty, failing), corrections, rules)
    write_report(what.folder, details, located, questions, root, grounds)
    note = {"training_run": what.run, "dagster_run": what.dagster_run, "code": code_state()}
    write_json(what.folder / NOTE, sealed(note | {"files": file_versions(what.folder)}))
    files = [what.folder / f"predict_{what.split}{end}" for end in (".json", ".sql")]
    rows = [Question.from_dict(row["question"]) for row in load_rows(root, what.split)]
    write_submissions(files, rows, submitted_sql(one.rollout for one in located[1].greedy))
    return scores


def previous_greedy(root: Path, run: str) -> dict[str, Any]:
    """Return the greedy accuracy that a run's next evaluation should not fall below.

    It is that of the run's last evaluation, else the champion's: who has it, on which dataset, and
    the ends of its interval. Empty without either.
    """
    before = read_if_there(evaluation_folder(root, run) / SCORES)
    who = f"the training run {run} before"
    champion = champion_record(root)
    if not before and champion:
        champion_run = str(champion["training_run"])
        before = read_if_there(evaluation_folder(root, champion_run) / SCORES)
        who = champion_name(champion_run)
    scores = Scores.from_dict(before) if before else None
    greedy = scores.find(TRAINED, "greedy") if scores else None
    if scores is None or greedy is None:
        return {}
    dataset = scores.provenance.get("dataset", "")
    return {"who": who, "dataset": dataset, "low": greedy.low, "high": greedy.high}


def scores_version(scores: Scores) -> str:
    """Return a version of the scores that ignores who measured them, and times."""
    timed = EFFICIENCY_DEFINITIONS
    kept = [one for one in scores.scores if not (one.part == RULE and one.name in timed)]
    return fingerprint(scores=replace(scores, scores=kept, provenance={}).to_dict())


def _locate(root: Path, sets: Mapping[str, RolloutSet], name: str) -> Evaluated:
    """Read a policy's rollouts by setting, with the place of each."""
    found = {
        setting: read_located(one.files(root), one.keys, one.samples)
        for setting in _SETTINGS
        if (one := sets.get(f"{name} {setting}"))
    }
    return Evaluated(name, *(found.get(setting, LocatedRollouts()) for setting in _SETTINGS))


def _policy_rollouts(sets: Mapping[str, RolloutSet], found: Evaluated) -> PolicyRollouts:
    """Return a policy's rollouts as they are scored, with what it was asked."""
    about = sets[f"{found.name} greedy"]
    greedy, sampled, once = (located.rollouts for located in found.sets.values())
    asked = {s: one.keys for s in _SETTINGS if (one := sets.get(f"{found.name} {s}"))}
    revision, dataset = about.policy_revision, about.dataset
    return PolicyRollouts(found.name, revision, greedy, sampled, dataset, once, asked)


def _provenance(root: Path, what: Evaluation, sets: Mapping[str, RolloutSet]) -> dict[str, str]:
    drawn = sets[f"{TRAINED} sampled"]
    sampling = f"temperature {drawn.sampling.temperature:g}, top_p {drawn.sampling.top_p:g}"
    found = {
        "dataset": drawn.dataset,
        "split": what.split,
        "metric": what.metric,
        "prompt_revision": drawn.prompt_revision,
        "code_version": what.code_version,
        "sampling": f"{counted(drawn.samples, 'rollout')}, {sampling}",
        "dagster_run": what.dagster_run,
    }
    if issues := list_version(root):
        found["known_issues"] = issues
    # A base that the run was not trained from, or that got other prompts, is no fair comparison.
    base, trained = (sets[f"{name} greedy"] for name in (BASE, TRAINED))
    record = read_if_there(training_record_file(root, what.run))
    start = str(record.get("base_revision", base.policy_revision))
    if start != base.policy_revision:
        found["trained_from"] = start
    if base.prompt_revision != trained.prompt_revision:
        found["base_prompt_revision"] = base.prompt_revision
    return found


def _rivals(
    root: Path, sets: Mapping[str, RolloutSet], base: PolicyRollouts
) -> dict[str, dict[str, Any]]:
    """Return for the gate what base and champion answered greedily, by their revisions."""
    others = [base]
    if f"{CHAMPION} greedy" in sets:
        others.append(_policy_rollouts(sets, _locate(root, sets, CHAMPION)))
    found = {}
    for one in others:
        require_policy(one.name, one.revision, one.greedy)
        about = sets[f"{one.name} greedy"]
        outcomes = outcomes_of(one, about.samples)["greedy"]
        found[one.revision] = {"prompt_revision": about.prompt_revision, "greedy": outcomes}
    return found


def _compare_with_champion(
    root: Path, scores: Scores, greedy: Outcomes, rivals: Mapping[str, Mapping[str, Any]]
) -> PreviousChampion | None:
    """Compare with the present champion, if it is another policy that was asked the same."""
    champion = champion_record(root)
    if not champion or champion["revision"] == scores.revisions[TRAINED]:
        return None
    if all(
        champion.get(name) == scores.provenance[name] for name in ("dataset", "prompt_revision")
    ):
        old = champion.get("outcomes", {})
    elif champion["revision"] in rivals:
        old = rivals[champion["revision"]]["greedy"]
    else:
        return None
    both = [key for key in greedy if key in old]
    return PreviousChampion(
        champion["training_run"],
        compare("greedy", "all", "", old, greedy, both),
        [key for key in both if greedy[key] > old[key]],
        [key for key in both if greedy[key] < old[key]],
    )
