"""Scoring rollouts, rating difficulty and judging candidates: the arithmetic of the lifecycle."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from text2sql.errors import Text2SqlError
from text2sql.evaluation.model_card import render_card
from text2sql.evaluation.rollout_scores import PolicyRollouts, score_policies
from text2sql.evaluation.scores import BASE, TRAINED, Scores, markdown_table, score_rows, text_table
from text2sql.judge.verdicts import GoldResult
from text2sql.questions import Question
from text2sql.rollouts.draw import vote_of
from text2sql.rollouts.store import Rollout
from text2sql.sandbox import Status
from text2sql.training.difficulty import Bounds, Kind, Tally, rate


def question(number: int, subset: str = "", difficulty: str = "simple") -> Question:
    """Make a question; its database is never opened here."""
    return Question(
        key=f"dev/{number}",
        db_id="shop",
        database=Path("shop.sqlite"),
        question="How many?",
        sql="SELECT 1",
        difficulty=difficulty,
        subset=subset,
    )


def rollout(number: int, verdict: str, sample: int = 0, **fields) -> Rollout:
    """Make a rollout with a verdict; ``r`` names its result."""
    ran = verdict in ("match", "wrong")
    result = fields.pop("r", verdict)
    values = {
        "key": f"dev/{number}",
        "sample": sample,
        "policy": "p",
        "policy_revision": "1",
        "prompt_revision": "1",
        "mode": "agentic",
        "sampling": {},
        "messages": [],
        "calls": [],
        "sql": f"SELECT '{result}'" if ran else None,
        "status": "ok" if ran else "error",
        "verdict": verdict,
        "digest": result if ran else "",
        "row_count": int(ran),
        "reward": None,
        "write_attempts": int(verdict == "write"),
        "turns": 1,
        "prompt_tokens": 1,
        "completion_tokens": 1,
        "seconds": 0.1,
        "stop_reason": "infrastructure" if verdict == "infrastructure" else "submit",
    }
    return Rollout(**(values | fields))


def group(number: int, verdicts: str) -> list[Rollout]:
    """Make a question's rollouts from letters: m match, w wrong, e error, i infrastructure."""
    names = {"m": "match", "w": "wrong", "e": "error", "i": "infrastructure", "x": "write"}
    return [rollout(number, names[letter], sample) for sample, letter in enumerate(verdicts)]


def policy(name: str, greedy: str, sampled: dict[int, str] | None = None) -> PolicyRollouts:
    """Make a policy's rollouts: a letter a question, and groups by question."""
    firsts = [group(number, letter)[0] for number, letter in enumerate(greedy)]
    groups = [one for number, letters in (sampled or {}).items() for one in group(number, letters)]
    return PolicyRollouts(name, "1", firsts, groups)


def score(base: PolicyRollouts, trained: PolicyRollouts, questions: int = 4, k: int = 4) -> Scores:
    """Score two policies on questions of two subsets."""
    subsets = ["old", "new"]
    return score_policies([question(n, subsets[n % 2]) for n in range(questions)], base, trained, k)


def test_greedy_by_subset_with_intervals():
    scores = score(policy(BASE, "mwwe"), policy(TRAINED, "mmwm"))
    everything = scores.find(TRAINED, "greedy")
    assert (everything.value, everything.n) == (0.75, 4)
    assert 0.29 < everything.low < 0.31 and 0.95 < everything.high < 0.96
    assert scores.find(BASE, "greedy", "subset", "new").value == 0.0
    assert scores.find(TRAINED, "greedy", "subset", "new").value == 1.0
    assert scores.find(TRAINED, "greedy", "difficulty", "simple").n == 4
    assert scores.find(TRAINED, "greedy", "subset", "nowhere") is None


def test_won_and_lost_and_p():
    scores = score(policy(BASE, "mwww"), policy(TRAINED, "wmmm"))
    (overall,) = [c for c in scores.comparisons if (c.setting, c.part) == ("greedy", "all")]
    assert (overall.won, overall.lost, overall.n) == (3, 1, 4)
    assert overall.p == pytest.approx(0.625)


def test_vote_pass_and_mean():
    sampled = {0: "mmww", 1: "mwww", 2: "eeee", 3: "mmmm"}
    scores = score(policy(BASE, "wwww", sampled), policy(TRAINED, "wwww", sampled))
    assert scores.find(TRAINED, "vote@4").value == 0.5
    assert scores.find(TRAINED, "pass@4").value == 0.75
    assert scores.find(TRAINED, "mean@4").value == pytest.approx(7 / 16)


def test_vote_tie_goes_to_the_lowest_index():
    assert vote_of(group(0, "wmwm")).index == 0
    assert vote_of(group(0, "mwwm")).index == 0


def test_a_rollout_that_attempted_a_write_has_no_vote():
    tried = [rollout(0, "wrong", sample, write_attempts=1) for sample in range(3)]
    assert vote_of([*tried, rollout(0, "match", 3)]).index == 3


def test_an_asked_question_without_a_rollout_is_missing():
    sampled = {0: "mm", 1: "mw"}
    base, trained = policy(BASE, "mm", sampled), policy(TRAINED, "mm", {0: "mm"})
    asked = {"sampled": ["dev/0", "dev/1"], "single-turn": ["dev/0"]}
    scores = score(base, replace(trained, asked=asked), questions=2, k=2)
    assert scores.missing == {BASE: 0, TRAINED: 2}
    assert scores.partial(TRAINED, "vote@2") == "partial: 1 of 2 questions"
    assert scores.partial(TRAINED, "single-turn") == "partial: 0 of 2 questions"


def test_markdown_cells_are_escaped():
    (_, _, line) = markdown_table([{"questions": "a|b\n<i>", "n": "1"}]).splitlines()
    assert line == "| a\\|b &lt;i&gt; | 1 |"


def test_rollouts_with_other_sampling_are_refused():
    trained = policy(TRAINED, "mm", {0: "mm", 1: "mw"})
    *same, last = trained.sampled
    colder = [*same, replace(last, sampling={"temperature": 0.2})]
    with pytest.raises(Text2SqlError, match=r"dev/1, sample 1.* sampling .*0\.2.* not {}"):
        score(policy(BASE, "mm"), replace(trained, sampled=colder), questions=2, k=2)
    greedy = [replace(one, sampling={"temperature": 0.0}) for one in trained.greedy]
    assert score(policy(BASE, "mm"), replace(trained, greedy=greedy), questions=2, k=2)


def test_infrastructure_is_missing_and_never_wrong():
    trained = policy(TRAINED, "mimm", {0: "mmmm", 2: "mmmi"})
    scores = score(policy(BASE, "wwww"), trained)
    assert scores.find(TRAINED, "greedy").n == 3
    assert scores.find(TRAINED, "greedy").value == 1.0
    assert scores.find(TRAINED, "vote@4").n == 1
    assert scores.missing == {BASE: 0, TRAINED: 2}


def test_samples_beyond_k_are_ignored():
    base = policy(BASE, "wwww", {0: "wwwwm"})
    assert score(base, policy(TRAINED, "wwww")).find(BASE, "pass@4").value == 0.0


def test_curves_of_voting_and_its_ceiling():
    sampled = {0: "mmww", 1: "mwww", 2: "eeee", 3: "mmmm"}
    scores = score(policy(BASE, "wwww"), policy(TRAINED, "wwww", sampled))
    whole, by_difficulty, by_database = scores.curves
    assert (whole.n, [point.k for point in whole.points]) == (4, [1, 2, 3, 4])
    assert [p.vote for p in whole.points] == pytest.approx([7 / 16, 7 / 16, 1.5 / 4, 1.5 / 4])
    assert whole.points[-1].ceiling == scores.find(TRAINED, "pass@4").value
    assert (by_difficulty.name, by_database.name) == ("simple", "shop")


def test_scores_on_some_of_the_questions_are_labelled_partial():
    scores = score(policy(BASE, "mwwe"), policy(TRAINED, "mmwm", {0: "mmmm"}))
    assert scores.partial(TRAINED, "vote@4") == "partial: 1 of 4 questions"
    assert scores.partial(TRAINED, "greedy") == ""


def test_other_policies_prompts_and_datasets_are_refused():
    trained = policy(TRAINED, "mmwm", {0: "mmmm"})
    other = PolicyRollouts(TRAINED, "2", trained.greedy, trained.sampled)
    with pytest.raises(Text2SqlError, match="revision 1, not 2"):
        score(policy(BASE, "mwwe"), other)
    prompts = [*trained.greedy, rollout(5, "match", prompt_revision="9")]
    with pytest.raises(Text2SqlError, match="prompt revision 9, not 1"):
        score(policy(BASE, "mwwe"), replace(trained, greedy=prompts))
    with pytest.raises(Text2SqlError, match=r"aaaa \(base\), bbbb \(trained\)"):
        score(replace(policy(BASE, "mwwe"), dataset="aaaa"), replace(trained, dataset="bbbb"))


def test_scores_survive_json():
    scores = score(policy(BASE, "mwwe", {0: "mmww"}), policy(TRAINED, "mmwm", {0: "mmmm"}))
    assert Scores.from_dict(json.loads(json.dumps(scores.to_dict()))) == scores


def test_single_turn_is_a_setting_of_its_own():
    base, trained = policy(BASE, "mwwe"), policy(TRAINED, "mmwm")
    once = [replace(one, mode="single_turn") for one in policy("", "wmmi").greedy]
    scores = score(base, replace(trained, single_turn=once))
    assert str(scores.find(TRAINED, "single-turn")).startswith("66.7 ")
    assert scores.find(TRAINED, "greedy").value == 0.75
    assert scores.partial(TRAINED, "single-turn") == "partial: 3 of 4 questions"
    assert (scores.missing[TRAINED], scores.infrastructure) == (1, {BASE: 0, TRAINED: 1 / 8})
    both = score(replace(base, single_turn=once), replace(trained, single_turn=once))
    assert [c.setting for c in both.comparisons if c.part == "all"] == ["greedy", "single-turn"]
    with pytest.raises(Text2SqlError, match=r"mix settings: .* the single-turn ones agentic"):
        score(base, replace(trained, single_turn=trained.greedy))


def test_empty_gold_is_a_slice_of_its_own():
    asked = [question(n) for n in range(4)]
    policies = policy(BASE, "mwwe"), policy(TRAINED, "mmwm")
    scores = score_policies(asked, *policies, 4, empty={"dev/1"})
    assert scores.find(TRAINED, "greedy").n == 4
    assert scores.find(TRAINED, "greedy", "gold", "gold without rows").value == 1.0
    rest = scores.find(TRAINED, "greedy", "gold", "gold with rows")
    assert (rest.n, rest.value) == (3, pytest.approx(2 / 3))
    assert score(*policies).find(TRAINED, "greedy", "gold", "gold with rows") is None


def test_nothing_to_score():
    scores = score_policies([], policy(BASE, ""), policy(TRAINED, ""), 8)
    assert (scores.find(BASE, "greedy").n, scores.find(BASE, "greedy").high) == (0, 1.0)
    assert score_rows(scores) == []
    assert text_table([]) == markdown_table([]) == ""


def test_tables_show_both_policies():
    scores = score(policy(BASE, "mwwe", {0: "mmww"}), policy(TRAINED, "mmwm", {0: "mmmm"}))
    rows = score_rows(scores, ("all", "subset"))
    assert [row["questions"] for row in rows[:4]] == ["all"] * 4
    assert rows[0]["base"] == "25.0 [4.6, 69.9] n=4"
    assert (rows[0]["gained"], rows[0]["lost"]) == ("2", "0")
    assert len(text_table(rows).splitlines()) == len(rows) + 1
    assert markdown_table(rows).startswith("| questions | setting | base | trained |")


def test_card_names_everything():
    scores = score(policy(BASE, "mwwe"), policy(TRAINED, "mmwm"))
    training = {
        "base": "pocket",
        "base_revision": "b1",
        "policy_revision": "t1",
        "prompts": 320,
        "seconds": 61.5,
        "settings": {"steps": 30},
    }
    card = render_card("text2sql-demo", scores, training)
    for text in ("b1", "t1", "320 prompts", "steps: 30", "75.0 [30.1, 95.4] n=4", "match 3"):
        assert text in card


def test_card_has_hugging_faces_metadata():
    ModelCard = pytest.importorskip("huggingface_hub").ModelCard
    scores = score(policy(BASE, "mwwe"), policy(TRAINED, "mmwm", {0: "mmmm"}))
    training = {"base": "b", "base_revision": "1", "policy_revision": "2", "prompts": 3}
    card = ModelCard(render_card('my "run"', scores, training | {"seconds": 1, "settings": {}}))
    assert card.data.model_name == 'my "run"'
    found = {result.metric_name: result.metric_value for result in card.data.eval_results}
    assert list(found.values()) == [75.0, 100.0, 100.0, 100.0]
    assert "vote@4 (95 % interval 20.7 to 100.0, partial: 1 of 4 questions)" in list(found)[1]
    assert card.data.eval_results[0].dataset_split == "dev"


def gold(number: int, status: Status = Status.OK, rows: int = 1) -> GoldResult:
    """Make a gold result."""
    return GoldResult(f"dev/{number}", status, "d", "d", "d", rows, 0.1, "")


@pytest.mark.parametrize(
    ("letters", "kind"),
    [
        ("mmmwwwww", Kind.TRAINABLE),
        ("mmmmmmmm", Kind.TOO_EASY),
        ("wwwwwwww", Kind.TOO_HARD),
        ("eeeeeeex", Kind.TOO_HARD),
        ("mmmwiiii", Kind.UNKNOWN),
        ("iiiiiiii", Kind.UNKNOWN),
        ("mmmwwwii", Kind.TRAINABLE),
        ("mmmmmmii", Kind.TOO_EASY),
        ("", Kind.UNKNOWN),
    ],
)
def test_difficulty_counts_valid_rollouts_only(letters, kind):
    golds = {"dev/0": gold(0)}
    (rating,) = rate([question(0)], golds, Tally(group(0, letters)), Bounds(minimum_valid=6))
    assert rating.kind is kind
    assert (rating.solved, rating.valid) == (letters.count("m"), len(letters.replace("i", "")))


@pytest.mark.parametrize("result", [gold(0, rows=0), gold(0, Status.ERROR), None])
def test_unusable_gold_leaves_training(result):
    golds = {"dev/0": result} if result else {}
    (rating,) = rate([question(0)], golds, Tally(group(0, "mmmmwwww")), Bounds(minimum_valid=6))
    assert rating.kind is Kind.UNUSABLE
