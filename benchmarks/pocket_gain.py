"""What GRPO on execution reward gains the pocket policy, over several GRPO seeds.

``python -m benchmarks.pocket_gain`` measures on an evaluation seed that no choice was made on:
new databases, words never seen and general questions, before and after, with 95 % intervals and
the questions gained and lost. ``--control`` deals the rewards at random instead: nothing but
learning from the reward may then be left to explain a gain. It takes some ten minutes a seed on
two cores; everything lies under ``--work`` and is not done twice.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measuring import surroundings
from text2sql.agent.settings import AgentSettings
from text2sql.datasets.pocket.corpus import CorpusSizes, generate
from text2sql.datasets.reading.layout import find_split
from text2sql.datasets.reading.questions import load_records
from text2sql.evaluation.rollout_scores import PolicyRollouts, score_policies
from text2sql.evaluation.scores import BASE, TRAINED, Scores, score_rows, text_table
from text2sql.judge.verdicts import GoldResult, run_gold
from text2sql.policy.base import Sampling
from text2sql.policy.local.policy import LocalPolicy
from text2sql.policy.open import POCKET, policy_directory
from text2sql.questions import Question
from text2sql.rollouts.draw import RolloutPlan
from text2sql.rollouts.store import Rollout, RolloutStore
from text2sql.sandbox import Sandbox
from text2sql.training.difficulty import Bounds, Kind, Tally, rate, usable

FINAL_SEED = 9173
"""The evaluation seed of the published numbers. The development seed is another."""

SIZES = CorpusSizes(train=512, new_databases=256, unseen_words=192, general=192)
SAMPLES = 8
VOTED = 96
"""Questions of each subset that are also sampled, for voting and pass@k."""


@dataclass(frozen=True)
class Material:
    """The questions and gold results of one corpus, and where its measurements are kept."""

    work: Path
    train: list[Question]
    dev: list[Question]
    golds: dict[str, GoldResult]


def prepare(work: Path, seed: int, sandbox: Sandbox) -> Material:
    """Write the corpus of a seed, read it, and run its gold queries."""
    corpus = generate(work / f"corpus-{seed}", seed, SIZES)
    train, dev = (
        [record.question for record in load_records(find_split(corpus, split))]
        for split in ("train", "dev")
    )
    golds = {question.key: run_gold(question, sandbox) for question in (*train, *dev)}
    return Material(work, train, dev, golds)


def sample(
    material: Material,
    policy: str | Path,
    questions: list[Question],
    temperature: float,
    name: str,
    sandbox: Sandbox,
) -> list[Rollout]:
    """Draw one greedy or several sampled rollouts a question; what is stored is not drawn."""
    store = RolloutStore(material.work / "rollouts" / f"{name}.jsonl")
    samples = SAMPLES if temperature else 1

    async def draw() -> list[Rollout]:
        directory = policy_directory(str(policy))
        assert directory is not None  # no server is measured here
        opened = LocalPolicy(directory, threads=2)
        settings = AgentSettings.for_policy(directory)
        drawn = Sampling(temperature)
        try:
            plan = RolloutPlan(
                opened, sandbox, settings, drawn, samples, material.golds, concurrency=128
            )
            return await plan.rollouts(questions, store)
        finally:
            await opened.close()

    return asyncio.run(draw())


def measure(material: Material, policy: str | Path, name: str, sandbox: Sandbox) -> PolicyRollouts:
    """Evaluate one policy on the dev questions."""
    seen: dict[str, int] = {}
    voted = []
    for question in material.dev:
        seen[question.subset] = seen.get(question.subset, 0) + 1
        if seen[question.subset] <= VOTED:
            voted.append(question)
    greedy = sample(material, policy, material.dev, 0.0, f"{name}-greedy", sandbox)
    sampled = sample(material, policy, voted, 1.0, f"{name}-sampled", sandbox)
    role = BASE if name == BASE else TRAINED
    return PolicyRollouts(role, greedy[0].policy_revision, greedy, sampled)


def filter_prompts(material: Material, sandbox: Sandbox) -> Path:
    """Keep the training questions that the base policy solves sometimes; return their folder."""
    questions = [question for question in material.train if usable(question, material.golds)]
    rollouts = sample(material, POCKET, questions, 1.0, "train-base", sandbox)
    ratings = rate(questions, material.golds, Tally(rollouts), Bounds(minimum_valid=6))
    kept = {rating.key for rating in ratings if rating.kind is Kind.TRAINABLE}
    prompts = [question for question in questions if question.key in kept]
    _write_lines(material.work / "prompts.jsonl", [q.to_dict() for q in prompts])
    golds = [material.golds[question.key].to_dict() for question in prompts]
    _write_lines(material.work / "golds.jsonl", golds)
    print(f"{len(prompts)} of {len(questions)} training questions kept", flush=True)
    return material.work


def train(prompts: Path, seed: int, steps: int, rate: float, control: bool) -> Path:
    """Run GRPO as the pipeline does; return the policy's directory."""
    output = prompts / f"{'control' if control else 'grpo'}-{seed}"
    if (output / "policy").is_dir():
        return output / "policy"
    output.mkdir(exist_ok=True)
    config = {
        "policy_dir": str(policy_directory(POCKET)),
        "prompts": str(prompts / "prompts.jsonl"),
        "golds": str(prompts / "golds.jsonl"),
        "output_dir": str(output),
        "steps": steps,
        "learning_rate": rate,
        "seed": seed,
        "threads": 2,
        "shuffle_rewards": control,
        "resume": True,
    }
    (output / "config.json").write_text(json.dumps(config, indent=2))
    started = time.monotonic()
    command = [sys.executable, "-m", "text2sql.training.trl.train", str(output / "config.json")]
    with (output / "train.log").open("w") as log:
        subprocess.run(command, check=True, stdout=log, stderr=subprocess.STDOUT)
    (output / "seconds").write_text(f"{time.monotonic() - started:.0f}")
    return output / "policy"


def report(name: str, scores: Scores) -> dict[str, Any]:
    """Print one seed's table and return its numbers, those of the parts that are kept."""
    print(f"\n{name}\n{text_table(score_rows(scores, parts=('subset',)))}", flush=True)
    return kept(scores.to_dict())


def kept(found: dict[str, Any]) -> dict[str, Any]:
    """Leave out what makes results large: the curves, and each of the many databases apart."""
    rows = {
        name: [row for row in found[name] if row["part"] in KEPT_PARTS]
        for name in ("scores", "comparisons")
    }
    return {name: value for name, value in found.items() if name != "curves"} | rows


KEPT_PARTS = ("all", "subset", "difficulty")


def run(given: argparse.Namespace) -> dict[str, Any]:
    """Measure the base once, then train and measure each seed."""
    settings = {key: str(value) for key, value in vars(given).items() if key not in ("work", "out")}
    found: dict[str, Any] = {"measured": surroundings(), "settings": settings, "scores": {}}
    with Sandbox() as sandbox:
        material = prepare(given.work, given.corpus_seed, sandbox)
        base = measure(material, POCKET, BASE, sandbox)
        prompts = filter_prompts(material, sandbox)
        for seed in given.seeds:
            policy = train(prompts, seed, given.steps, given.learning_rate, given.control)
            name = policy.parent.name
            trained = measure(material, policy, name, sandbox)
            scores = score_policies(material.dev, base, trained, SAMPLES)
            found["scores"][name] = report(name, scores)
    return found


def _write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def main() -> None:
    """Parse the command line, measure, and write the numbers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, default=Path("artifacts/benchmarks/pocket_gain"))
    parser.add_argument("--corpus-seed", type=int, default=FINAL_SEED)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="of GRPO")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--learning-rate", type=float, default=1.5e-4)
    parser.add_argument("--control", action="store_true", help="deal the rewards at random")
    parser.add_argument("--out", type=Path, help="where to write the numbers as JSON")
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    found = run(given)
    out = given.out or given.work / f"{'control' if given.control else 'gain'}.json"
    out.write_text(json.dumps(found, indent=2) + "\n")
    print(f"\nNumbers: {out}")


if __name__ == "__main__":
    main()
