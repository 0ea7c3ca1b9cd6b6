"""Sampling in shards: how rollouts are divided among processes, and found again.

A set of rollouts is what one policy did on one split with one way of sampling; its folder is
named by all of that, so equal work is found and never done twice. In the folder each shard has
a store of its own.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field

from assets.data import load_golds, load_questions
from assets.plots import records
from assets.versions import fingerprint
from resources.paths import ArtifactRoot
from resources.policy import PolicyResource
from resources.processes import end_with_parent
from resources.sandbox import SandboxResource
from text2sql.errors import Text2SqlError
from text2sql.judge import Verdict
from text2sql.policy.base import Sampling
from text2sql.questions import Question
from text2sql.rollouts import Rollout, RolloutStore, sample_rollouts

if TYPE_CHECKING:
    from text2sql.sandbox import Sandbox

SAMPLING_POOL = "sampling"
PROGRESS_SECONDS = 15.0
SAMPLING_CODE = (
    "assets/sampling.py",
    *(f"text2sql/{name}.py" for name in ("agent", "judge", "prompts", "rollouts", "tools")),
    "text2sql/policy",
    "text2sql/sandbox",
)


class SamplingConfig(dg.Config):
    """How rollouts are drawn and divided."""

    shards: int = Field(default=2, ge=1, le=256, description="Processes that sample side by side.")
    samples: int = Field(default=8, ge=1, le=128, description="Sampled rollouts a question.")
    temperature: float = Field(default=1.0, gt=0, le=2, description="Of the sampled rollouts.")
    top_p: float = Field(default=1.0, gt=0, le=1, description="Of the sampled rollouts.")
    concurrency: int = Field(default=64, ge=1, le=4096, description="Rollouts in flight a shard.")
    threads: int = Field(default=1, ge=1, le=256, description="CPU threads of a local policy.")

    def sampled(self) -> Sampling:
        """Return how the sampled rollouts are drawn."""
        return Sampling(self.temperature, self.top_p)

    def greedy(self) -> Sampling:
        """Return how the greedy rollout is drawn."""
        return Sampling(0.0)


@dataclass(frozen=True)
class RolloutSet:
    """One set of rollouts: what it depends on, how many there are, and where they lie."""

    policy: str
    policy_revision: str
    prompt_revision: str
    split: str
    dataset: str
    sampling: Sampling
    samples: int
    keys: tuple[str, ...]

    @property
    def folder(self) -> str:
        """The folder's name under ``rollouts``, which says what the rollouts depend on."""
        version = fingerprint(
            prompt=self.prompt_revision, dataset=self.dataset, sampling=asdict(self.sampling)
        )
        kind = "sampled" if self.sampling.temperature else "greedy"
        return f"{self.split}-{kind}-{self.policy_revision}-{version}"

    def to_dict(self) -> dict[str, Any]:
        """Return the set as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> "RolloutSet":
        """Read what ``to_dict`` wrote."""
        sampling = Sampling(**row["sampling"])
        return cls(**{**row, "sampling": sampling, "keys": tuple(row["keys"])})


def rollout_set(
    policy: PolicyResource,
    spec: str | Path | None,
    dataset: str,
    split: str,
    questions: Sequence[Question],
    sampling: Sampling,
    samples: int,
) -> RolloutSet:
    """Describe the rollouts that a policy should have on some questions of a split."""
    from text2sql.prompts import prompt_revision

    return RolloutSet(
        policy=str(spec or policy.base),
        policy_revision=policy.revision(spec),
        prompt_revision=prompt_revision(policy.settings(spec)),
        split=split,
        dataset=dataset,
        sampling=sampling,
        samples=samples,
        keys=tuple(question.key for question in questions),
    )


def read_rollouts(root: Path, wanted: RolloutSet) -> list[Rollout]:
    """Return the set's rollouts as far as they are there, each (question, sample) once.

    One that the infrastructure spoilt is returned only where no valid one followed.
    """
    found: dict[tuple[str, int], Rollout] = {}
    keys = set(wanted.keys)
    for path in sorted((root / "rollouts" / wanted.folder).glob("*.jsonl")):
        for rollout in RolloutStore(path).read(transcripts=False):
            place = (rollout.key, rollout.sample)
            known = found.get(place)
            if rollout.key not in keys or rollout.sample >= wanted.samples:
                continue
            if known is None or not known.valid:
                found[place] = rollout
    return list(found.values())


def plan_shards(
    root: Path, sets: Sequence[RolloutSet], config: SamplingConfig
) -> Iterator[dg.DynamicOutput[dict[str, Any]]]:
    """Yield the work of each shard: its part of every set, without what is there already.

    A shard with nothing left to ask is not started. A question belongs to the same shard in
    every set and every run with this number of shards.
    """
    done = {wanted.folder: _complete(root, wanted) for wanted in sets}
    for shard in range(config.shards):
        part = [
            wanted.to_dict() | {"keys": keys}
            for wanted in sets
            if (keys := sorted(set(wanted.keys[shard :: config.shards]) - done[wanted.folder]))
        ]
        work = {"name": f"shard-{shard}-of-{config.shards}", "sets": part}
        if part:
            settings = {"concurrency": config.concurrency, "threads": config.threads}
            yield dg.DynamicOutput(work | settings, str(shard), output_name="shards")


def _complete(root: Path, wanted: RolloutSet) -> set[str]:
    """Return the questions whose rollouts are all there and valid."""
    counts = Counter(rollout.key for rollout in read_rollouts(root, wanted) if rollout.valid)
    return {key for key, count in counts.items() if count >= wanted.samples}


@dg.op(pool=SAMPLING_POOL)
def sample_shard(
    context: dg.OpExecutionContext,
    work: dict,
    root: ArtifactRoot,
    policy: PolicyResource,
    sandbox: SandboxResource,
) -> dict:
    """Sample one shard's rollouts into its stores; return how many there are of each set."""
    end_with_parent()
    counts = {}
    with sandbox.open() as box:
        for row in work["sets"]:
            wanted = RolloutSet.from_dict(row)
            rollouts = asyncio.run(_sample(context, wanted, work, root, policy, box))
            counts[wanted.folder] = len(rollouts)
            context.log.info(f"{len(rollouts)} rollouts of {wanted.policy}: {wanted.folder}")
    return counts


async def _sample(
    context: dg.OpExecutionContext,
    wanted: RolloutSet,
    work: Mapping[str, Any],
    root: ArtifactRoot,
    policy: PolicyResource,
    box: "Sandbox",
) -> list[Rollout]:
    keys = set(wanted.keys)
    store = RolloutStore(root.folder("rollouts", wanted.folder) / f"{work['name']}.jsonl")
    opened = policy.open(wanted.policy, work["threads"])
    try:
        return await sample_rollouts(
            [q for q in load_questions(root.path, wanted.split) if q.key in keys],
            load_golds(root.path, wanted.split),
            opened,
            box,
            policy.settings(wanted.policy),
            wanted.sampling,
            wanted.samples,
            store,
            concurrency=work["concurrency"],
            on_progress=_log_progress(context, wanted),
            run_id=context.run_id,
        )
    finally:
        await opened.close()


def _log_progress(context: dg.OpExecutionContext, wanted: RolloutSet) -> Callable[[int, int], None]:
    """Return a callback that logs how far a shard is, now and then."""
    last = time.monotonic()

    def report(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last > PROGRESS_SECONDS:
            last = time.monotonic()
            context.log.info(f"{done} of {total} rollouts: {wanted.folder}")

    return report


def require_valid(rollouts: Sequence[Rollout], least: float = 0.5) -> None:
    """Refuse to go on where the infrastructure spoilt too many rollouts to say anything."""
    spoilt = [rollout for rollout in rollouts if not rollout.valid]
    if len(rollouts) - len(spoilt) < least * max(1, len(rollouts)):
        raise Text2SqlError(
            f"{len(spoilt)} of {len(rollouts)} rollouts failed, for instance with: "
            f"{spoilt[0].error if spoilt else 'nothing was sampled'}. Mend it and run again: "
            "only what is missing is asked."
        )


def describe_rollouts(
    root: Path, sets: Mapping[str, tuple[RolloutSet, Sequence[Rollout]]], shards: Sequence[Any]
) -> dg.Output[None]:
    """Return a graph asset's output: what there is now, and how much of it is new."""
    new = sum(sum(counts.values()) for counts in shards)
    rows = [
        {
            "rollouts": name,
            "questions": len(wanted.keys),
            "there": len(rollouts),
            "right": sum(rollout.verdict == Verdict.MATCH for rollout in rollouts),
            "invalid": sum(not rollout.valid for rollout in rollouts),
            "policy revision": wanted.policy_revision,
            "folder": str(root / "rollouts" / wanted.folder),
        }
        for name, (wanted, rollouts) in sets.items()
    ]
    version = fingerprint(rows=[[row["folder"], row["there"], row["invalid"]] for row in rows])
    return dg.Output(
        None,
        metadata={"rollouts": records(rows), "shards that sampled": len(shards), "new": new},
        data_version=dg.DataVersion(version),
    )
