"""Sampling in shards: the missing rollouts are divided among processes."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field

from assets.common.failures import fails_in_a_sentence
from assets.common.plots import records
from assets.common.pools import SAMPLING_POOL
from assets.rollouts.sets import settings_of
from resources.artifact_root import ArtifactRoot
from resources.forms import TEMPERATURE, TOP_P, Form, bounded
from resources.policy import PolicyResource
from resources.processes import end_step_with_run
from resources.sandbox import SandboxResource
from resources.step_pods import sampling_pod
from text2sql.common.artifacts import rollouts_folder
from text2sql.common.counting import counted
from text2sql.common.provenance import fingerprint
from text2sql.datasets.gold.stored import renewed
from text2sql.datasets.stored import load_golds, load_questions
from text2sql.errors import Text2SqlError
from text2sql.policy.base import Sampling
from text2sql.policy.vllm.gpu import visible_gpus
from text2sql.rollouts.cost import PaceKeeper
from text2sql.rollouts.draw import Drawn, RolloutPlan
from text2sql.rollouts.sets import RolloutSet
from text2sql.rollouts.store import RolloutStore
from text2sql.training.difficulty import Tally, tally_rollouts

if TYPE_CHECKING:
    from text2sql.sandbox import Sandbox


class SamplingConfig(Form):
    """How rollouts are drawn, and by how many processes."""

    shards: int = Field(default=2, ge=1, le=256, description="Processes that sample in parallel.")
    samples: int = Field(default=8, ge=1, le=128, description="Sampled rollouts per question.")
    temperature: float = bounded(TEMPERATURE)
    top_p: float = bounded(TOP_P)
    concurrency: int = Field(
        default=64, ge=1, le=4096, description="Concurrent rollouts of a shard."
    )
    threads: int = Field(default=1, ge=1, le=256, description="CPU threads of a local policy.")
    resampling: int = Field(
        default=2,
        ge=0,
        le=20,
        description="How often a run retries rollouts that a server or worker failure lost.",
    )

    def sampled(self) -> Sampling:
        """Return how the sampled rollouts are drawn."""
        return Sampling(self.temperature, self.top_p)


def plan_shards(
    root: Path, sets: Sequence[RolloutSet], config: SamplingConfig, policy: PolicyResource
) -> Iterator[dg.DynamicOutput[dict[str, Any]]]:
    """Yield the work of each shard: its part of every set, without the rollouts that exist.

    A question belongs to the same shard in every set and every run with this number of shards.
    Raises Text2SqlError if shards would compete for the same GPUs.
    """
    missing: dict[str, set[str]] = {}
    for one in sets:
        tally = tally_rollouts(root, one)
        missing[one.folder] = {key for key in one.keys if tally.valid(key) < one.samples}
    served = any(missing[one.folder] and policy.starts_server(one.policy) for one in sets)
    if config.shards > 1 and served and visible_gpus():
        raise Text2SqlError(
            f"{config.shards} shards would each start a vLLM server on the same GPUs: set shards "
            "to 1 and raise concurrency; vllm's data_parallel_size uses all GPUs for one server."
        )
    settings = config.model_dump(include={"concurrency", "threads", "resampling"})
    for shard in range(config.shards):
        part = [
            one.to_dict() | {"keys": keys}
            for one in sets
            if (keys := sorted(missing[one.folder].intersection(one.keys[shard :: config.shards])))
        ]
        work = {"name": f"shard-{shard}-of-{config.shards}", "sets": part}
        if part:
            yield dg.DynamicOutput(work | settings, str(shard), output_name="shards")


# The retries resume a shard whose process or pod was lost, or whose server was down.
@dg.op(
    pool=SAMPLING_POOL, retry_policy=dg.RetryPolicy(max_retries=2, delay=10), tags=sampling_pod()
)
@fails_in_a_sentence
def sample_shard(
    context: dg.OpExecutionContext,
    work: dict,
    root: ArtifactRoot,
    policy: PolicyResource,
    sandbox: SandboxResource,
) -> dict:
    """Sample one shard's rollouts into its stores; return how many it drew for each set."""
    end_step_with_run()
    with sandbox.open() as box:
        return asyncio.run(_sample_all(context, work, root.path, policy, box))


async def _sample_all(
    context: dg.OpExecutionContext,
    work: Mapping[str, Any],
    root: Path,
    policy: PolicyResource,
    box: "Sandbox",
) -> dict[str, int]:
    """Sample set after set; consecutive sets of one policy share its weights or its server."""
    counts = {}
    sets = map(RolloutSet.from_dict, work["sets"])
    for spec, same in groupby(sets, key=lambda one: one.policy):
        opened = policy.open(spec, work["threads"])
        try:
            for one in same:
                golds = load_golds(root, one.split)
                questions = load_questions(root, one.split)
                golds = await asyncio.to_thread(renewed, golds, questions, box)
                plan = RolloutPlan(
                    opened,
                    box,
                    settings_of(policy, one.policy, one.mode),
                    one.sampling,
                    one.samples,
                    golds,
                    concurrency=work["concurrency"],
                    retries=work["resampling"],
                    run_id=context.run_id,
                )
                drawn = await _sample(context, one, plan, root, work["name"])
                context.log.info(f"{counted(drawn, 'rollout')} of {spec}: {one.folder}")
                counts[one.folder] = drawn
        finally:
            await opened.close()
    return counts


async def _sample(
    context: dg.OpExecutionContext, rollouts: RolloutSet, plan: RolloutPlan, root: Path, shard: str
) -> int:
    """Draw what a shard lacks of a set; return how many rollouts are new."""
    store = RolloutStore(rollouts_folder(root, rollouts.folder) / f"{shard}.jsonl")
    pace = PaceKeeper(store.path, context.run_id, context.log.info)
    keys = set(rollouts.keys)
    questions = [q for q in load_questions(root, rollouts.split) if q.key in keys]

    def warn(drawn: Drawn, retries_left: int) -> None:
        retry = "retrying them now" if retries_left else "the next run retries them"
        lost = counted(drawn.lost, "rollout")
        context.log.warning(f"{lost} failed, for example with: {drawn.error}; {retry}.")

    try:
        await plan.draw(questions, store, on_progress=pace, on_lost=warn)
    finally:
        pace.note()
    return pace.drawn


def describe_rollouts(
    root: Path,
    sets: Mapping[str, tuple[RolloutSet, Tally]],
    shards: Sequence[Any],
    estimate: str = "",
) -> dg.Output[None]:
    """Return a graph asset's output: its rollouts, how many are new, the ``estimate`` before."""
    rows = [
        {
            "rollouts": name,
            "questions": len(rollouts.keys),
            "there": len(tally),
            "right": tally.right,
            "invalid": tally.invalid,
            "policy revision": rollouts.policy_revision,
            "folder": str(rollouts_folder(root, rollouts.folder)),
        }
        for name, (rollouts, tally) in sets.items()
    ]
    version = fingerprint(
        sets=[[one.folder, tally.content, tally.invalid] for one, tally in sets.values()]
    )
    new = sum(sum(counts.values()) for counts in shards)
    metadata = {"rollouts": records(rows), "shards that sampled": len(shards), "new": new}
    metadata |= {"estimate before": estimate} if estimate else {}
    return dg.Output(None, metadata=metadata, data_version=dg.DataVersion(version))
