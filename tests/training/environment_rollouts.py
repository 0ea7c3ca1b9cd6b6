"""A program that rolls the environment out with the verifiers of its own interpreter.

Reads one JSON object (``server``, ``prompts``, ``golds``, ``settings``, ``agent``, ``workers``,
``tokenizer``) and prints what became of each task; with ``workers`` through verifiers' own env
server, with ``tokenizer`` through the client that prime-rl trains with.
"""

import asyncio
import json
import multiprocessing
import os
import sys
from importlib.metadata import version

import verifiers.v1 as vf
from verifiers.v1.serve import EnvClient, serve_env


def environment(wanted):
    """The environment's configuration, as prime-rl writes it."""
    agent = {
        "harness": {"id": "text2sql-env", "settings": wanted["settings"]},
        "runtime": {"type": "subprocess"},
    }
    taskset = {"id": "text2sql-env", "prompts": wanted["prompts"], "golds": wanted["golds"]}
    return {"taskset": taskset, "agent": agent | wanted["agent"]}


def described(trace):
    """What the test compares of a trace."""
    return {
        "key": trace.task.data.id if hasattr(trace.task.data, "id") else trace.task.key,
        "task_key": trace.task.key,
        "result": trace.info.get("text2sql"),
        "rewards": {name: reward and reward.score for name, reward in trace.rewards.items()},
        "metrics": trace.metrics,
        "branches": trace.num_branches,
        "tokens": [branch.token_ids for branch in trace.branches],
        "sampled": [branch.sampled_mask for branch in trace.branches],
        "ok": trace.ok,
        "errors": [error.message for error in trace.errors],
    }


def client_and_sampling(wanted):
    """How the model is reached: a key, since verifiers insists on one."""
    sampling = vf.SamplingConfig(temperature=1.0, max_tokens=512)
    server = {"base_url": wanted["server"], "api_key_var": "TEXT2SQL_TEST_KEY"}
    if not wanted["tokenizer"]:
        return vf.EvalClientConfig(**server), sampling
    renderer = {"name": "qwen3.5", "enable_thinking": False}
    tokenizer = wanted["tokenizer"]
    return vf.TrainClientConfig(
        **server, renderer=renderer, renderer_model_name=tokenizer
    ), sampling


async def in_this_process(wanted):
    """Run every task once, here."""
    env = vf.load_environment(vf.SingleAgentEnvConfig.model_validate(environment(wanted)))
    client, sampling = client_and_sampling(wanted)
    context = vf.ModelContext(client=client, model="scripted", sampling=sampling)
    async with env.serving():
        slots = [env.slots(task)[0] for task in env.taskset]
        return await asyncio.gather(*(env.run_slot(slot, context) for slot in slots))


async def through_server(wanted, address):
    """Run every task once, in the workers of an env server."""
    config = vf.SingleAgentEnvConfig.model_validate(environment(wanted))
    tasks = list(vf.load_taskset(config.taskset))
    client, sampling = client_and_sampling(wanted)
    server = EnvClient(address)
    try:
        await server.wait_for_server_startup()
        data = [task.data.model_dump(mode="json") for task in tasks]
        return await asyncio.gather(
            *(server.run(client, "scripted", sampling, one) for one in data)
        )
    finally:
        await server.close()


def served(wanted):
    """Start an env server, roll out through it, and stop it."""
    from verifiers.v1.serve import env_config_data

    config = vf.SingleAgentEnvConfig.model_validate(environment(wanted))
    context = multiprocessing.get_context("spawn")
    addresses = context.Queue()
    server = context.Process(
        target=serve_env,
        kwargs={
            "max_workers": wanted["workers"],
            "elastic": False,
            "address": "tcp://127.0.0.1:0",
            "address_queue": addresses,
            "config_data": env_config_data(config),
        },
    )
    server.start()
    try:
        return asyncio.run(through_server(wanted, addresses.get(timeout=120)))
    finally:
        server.terminate()
        server.join(30)


def main():
    """Roll out and print."""
    wanted = json.load(sys.stdin)
    os.environ["TEXT2SQL_TEST_KEY"] = "none"
    episodes = served(wanted) if wanted["workers"] else asyncio.run(in_this_process(wanted))
    traces = [described(trace) for episode in episodes for trace in episode.traces]
    dagster = sorted(name for name in sys.modules if name.split(".")[0] in ("dagster", "pandas"))
    print(json.dumps({"verifiers": version("verifiers"), "traces": traces, "dagster": dagster}))


if __name__ == "__main__":
    main()
