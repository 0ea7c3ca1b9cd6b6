"""Sampling in shards: how the rollouts that are missing are divided among processes."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field

from assets.common.plots import records
from assets.common.pools import SAMPLING_POOL
from assets.common.told import told
from assets.common.versions import fingerprint
from assets.data.stored import load_golds, load_questions
from assets.rollouts.sets import settings_of, tally_rollouts
from resources.forms import Form
from resources.paths import ArtifactRoot
from resources.policy import PolicyResource
from resources.processes import end_with_parent
from resources.sandbox import SandboxResource
from resources.step_pods import sampling_pod
from text2sql.common.counting import counted
from text2sql.errors import Text2SqlError
from text2sql.policy.base import Policy, Sampling
from text2sql.policy.vllm.gpu import visible_gpus
from text2sql.rollouts.cost import PaceKeeper
from text2sql.rollouts.draw import Drawn, RolloutPlan
from text2sql.rollouts.sets import RolloutSet
from text2sql.rollouts.store import RolloutStore
from text2sql.training.difficulty import Tally

if TYPE_CHECKING:
    from text2sql.sandbox import Sandbox


class SamplingConfig(Form):
    """How rollouts are drawn and divided."""

    shards: int = Field(default=2, ge=1, le=256, description="Processes that sample side by side.")
    samples: int = Field(default=8, ge=1, le=128, description="Sampled rollouts of each question.")
    temperature: float = Field(default=1.0, gt=0, le=2, description="Sampling temperature.")
    top_p: float = Field(default=1.0, gt=0, le=1, description="Nucleus of the sampling.")
    concurrency: int = Field(
        default=64, ge=1, le=4096, description="Rollouts side by side in a shard."
    )
    threads: int = Field(default=1, ge=1, le=256, description="CPU threads of a local policy.")
    resampling: int = Field(
        default=2,
        ge=0,
        le=20,
        description="How often rollouts that a server or worker spoilt are asked again at once.",
    )

    def sampled(self) -> Sampling:
        """Return how the sampled rollouts are drawn."""
        return Sampling(self.temperature, self.top_p)

    def greedy(self) -> Sampling:
        """Return how the greedy rollout is drawn."""
        return Sampling(0.0)


def plan_shards(
    root: Path, sets: Sequence[RolloutSet], config: SamplingConfig, policy: PolicyResource
) -> Iterator[dg.DynamicOutput[dict[str, Any]]]:
    """Yield the work of each shard: its part of every set, without what is there already.

    A shard with nothing left to ask is not started. A question belongs to the same shard in
    every set and every run with this number of shards. Raises Text2SqlError for shards that
    would take each other's GPUs.
    """
    done = {wanted.folder: _complete(root, wanted) for wanted in sets}
    _require_gpus_apart(config, policy, [one for one in sets if set(one.keys) - done[one.folder]])
    settings = config.model_dump(include={"concurrency", "threads", "resampling"})
    for shard in range(config.shards):
        part = [
            wanted.to_dict() | {"keys": keys}
            for wanted in sets
            if (keys := sorted(set(wanted.keys[shard :: config.shards]) - done[wanted.folder]))
        ]
        work = {"name": f"shard-{shard}-of-{config.shards}", "sets": part}
        if part:
            yield dg.DynamicOutput(work | settings, str(shard), output_name="shards")


def _require_gpus_apart(
    config: SamplingConfig, policy: PolicyResource, sets: Sequence[RolloutSet]
) -> None:
    """Refuse shards on this machine's GPUs that would each start a vLLM server there."""
    served = any(policy.starts_server(wanted.policy) for wanted in sets)
    if config.shards > 1 and served and visible_gpus():
        raise Text2SqlError(
            f"{config.shards} shards would each start a vLLM server on the same GPUs: set shards "
            "to 1 and concurrency higher; vllm's data_parallel_size spreads the one over all GPUs."
        )


def _complete(root: Path, wanted: RolloutSet) -> set[str]:
    """Return the questions whose rollouts are all there and valid."""
    tally = tally_rollouts(root, wanted)
    return {key for key in wanted.keys if tally.valid(key) >= wanted.samples}


LOST_SHARD = dg.RetryPolicy(max_retries=2, delay=10)
"""A shard whose process or pod was lost, or whose server was away, goes on where it was."""


@dg.op(pool=SAMPLING_POOL, retry_policy=LOST_SHARD, tags=sampling_pod())
@told
def sample_shard(
    context: dg.OpExecutionContext,
    work: dict,
    root: ArtifactRoot,
    policy: PolicyResource,
    sandbox: SandboxResource,
) -> dict:
    """Sample one shard's rollouts into its stores; return how many it drew for each set."""
    end_with_parent()
    with sandbox.open() as box:
        return asyncio.run(_sample_all(context, work, root, policy, box))


async def _sample_all(
    context: dg.OpExecutionContext,
    work: Mapping[str, Any],
    root: ArtifactRoot,
    policy: PolicyResource,
    box: "Sandbox",
) -> dict[str, int]:
    """Sample set after set; neighbours of the same policy share its weights or its server."""
    counts = {}
    sets = map(RolloutSet.from_dict, work["sets"])
    for spec, same in groupby(sets, key=lambda wanted: wanted.policy):
        opened = policy.open(spec, work["threads"])
        try:
            for wanted in same:
                drawn = await _sample(context, wanted, work, root, policy, opened, box)
                context.log.info(f"{counted(drawn, 'rollout')} of {spec}: {wanted.folder}")
                counts[wanted.folder] = drawn
        finally:
            await opened.close()
    return counts


async def _sample(
    context: dg.OpExecutionContext,
    wanted: RolloutSet,
    work: Mapping[str, Any],
    root: ArtifactRoot,
    policy: PolicyResource,
    opened: Policy,
    box: "Sandbox",
) -> int:
    """Draw a set's rollouts; those that the infrastructure spoilt are asked again at once."""
    keys = set(wanted.keys)
    store = RolloutStore(root.folder("rollouts", wanted.folder) / f"{work['name']}.jsonl")
    pace = PaceKeeper(store.path, context.run_id, context.log.info)
    questions = [q for q in load_questions(root.path, wanted.split) if q.key in keys]
    golds = load_golds(root.path, wanted.split)
    plan = RolloutPlan(
        opened,
        box,
        settings_of(policy, wanted.policy, wanted.mode),
        wanted.sampling,
        wanted.samples,
        golds,
        concurrency=work["concurrency"],
        retries=work["resampling"],
        run_id=context.run_id,
    )

    def warn(drawn: Drawn, retries_left: int) -> None:
        next_try = "they are asked again" if retries_left else "the next run asks them again"
        lost = counted(drawn.lost, "rollout")
        context.log.warning(f"{lost} failed, for example with: {drawn.error}; {next_try}.")

    try:
        await plan.draw(questions, store, on_progress=pace, on_lost=warn)
    finally:
        pace.note()
    return pace.drawn


def require_valid(tally: Tally, least: float = 0.5) -> None:
    """Refuse to go on where the infrastructure spoilt too many rollouts to say anything."""
    if len(tally) - tally.invalid < least * max(1, len(tally)):
        raise Text2SqlError(
            f"{tally.invalid} of {counted(len(tally), 'rollout')} failed, for instance with: "
            f"{tally.error or 'nothing was sampled'}. Mend it and run again: "
            "only what is missing is asked."
        )


def tallied(
    root: Path, sets: Mapping[str, Mapping[str, Any]]
) -> dict[str, tuple[RolloutSet, Tally]]:
    """Return sets of rollouts with what became of them; raise where one says nothing."""
    found = {}
    for name, row in sets.items():
        wanted = RolloutSet.from_dict(row)
        found[name] = (wanted, tally_rollouts(root, wanted))
        require_valid(found[name][1])
    return found


def describe_rollouts(
    root: Path,
    sets: Mapping[str, tuple[RolloutSet, Tally]],
    shards: Sequence[Any],
    estimate: str = "",
) -> dg.Output[None]:
    """Return a graph asset's output: what there is now, and how much of it is new.

    ``estimate`` is what was said of the cost before.
    """
    new = sum(sum(counts.values()) for counts in shards)
    rows = [
        {
            "rollouts": name,
            "questions": len(wanted.keys),
            "there": len(tally),
            "right": tally.right,
            "invalid": tally.invalid,
            "policy revision": wanted.policy_revision,
            "folder": str(root / "rollouts" / wanted.folder),
        }
        for name, (wanted, tally) in sets.items()
    ]
    version = fingerprint(
        sets=[[wanted.folder, tally.content, tally.invalid] for wanted, tally in sets.values()]
    )
    metadata = {"rollouts": records(rows), "shards that sampled": len(shards), "new": new}
    if estimate:
        metadata["estimate before"] = estimate
    return dg.Output(None, metadata=metadata, data_version=dg.DataVersion(version))
