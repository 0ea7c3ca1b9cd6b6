"""Stands in for prime-rl's programs: ``python prime_rl.py NAME ARGUMENTS...``.

``rl`` starts ``inference``, ``env-server``, ``orchestrator`` and ``torchrun`` as the real one
does; these hold ports, write metrics, checkpoints and weights, and misbehave as the file
``behaviour.json`` in PRIME_RL_DIR says:

``step_seconds``: time of a step. ``crash``: {program: [step, text, exit status]}. ``hang_at``: the
step after which nothing moves. ``stubborn``: all ignore SIGTERM. ``full_disk_at``: the step at
which the disk is full. ``kl``: the divergence that is reported. ``refuse``: what the dry run says.
``checkpoint_torn``: the newest checkpoint lacks the orchestrator's half.
"""

import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import tomllib
from pathlib import Path

PLACE = Path(os.environ["PRIME_RL_DIR"])
BEHAVIOUR = json.loads((PLACE / "behaviour.json").read_text())


def rl(arguments):
    config_file, options = Path(arguments[1]), arguments[2:]
    config = tomllib.loads(config_file.read_text())
    run_dir = Path(config["output_dir"]) / config["run"]["name"]
    if "--dry-run" in options:
        print(BEHAVIOUR.get("refuse", "Dry run complete."))
        if "refuse" in BEHAVIOUR:
            sys.exit(1)
        options.remove("--dry-run")
        if "slurm" in config and options:
            write_job(config, run_dir, config_file, options)
        sys.exit(0)
    if "--in-a-job" not in options:
        prepare(run_dir, options)
    start = int(options[1]) if options[0] == "--resume.step" else 0
    logs = run_dir / "logs" / str(time.time_ns())
    logs.mkdir(parents=True)
    (run_dir / "logs" / "latest").unlink(missing_ok=True)
    (run_dir / "logs" / "latest").symlink_to(logs.name)
    children = {}

    def end(*_):
        for child in children.values():
            child.terminate()
        deadline = time.monotonic() + 3
        while any(child.poll() is None for child in children.values()):
            if time.monotonic() > deadline and not BEHAVIOUR.get("stubborn"):
                for child in children.values():
                    child.kill()
            time.sleep(0.05)
        sys.exit(1)

    signal.signal(signal.SIGTERM, signal.SIG_IGN if BEHAVIOUR.get("stubborn") else end)
    for name in ("inference", "env-server", "orchestrator", "torchrun"):
        with (logs / f"{name}.log").open("w") as log:
            children[name] = subprocess.Popen(
                [name, str(config_file), str(start)], stdout=log, stderr=log
            )
    print("Startup complete.", flush=True)
    while True:
        states = {name: child.poll() for name, child in children.items()}
        for name, state in states.items():
            if state:
                print(f"{name} failed with exit code {state}", flush=True)
                end()
        if states["orchestrator"] == states["torchrun"] == 0:
            break
        time.sleep(0.05)
    for name in ("inference", "env-server"):
        children[name].kill()
    print("Training finished!")


def write_job(config, run_dir, config_file, options):
    """Write the job's script, as the real one does from a template; it starts all by itself."""
    prepare(run_dir, options)
    command = [config["slurm"]["project_dir"] + "/.venv/bin/rl", "@", str(config_file), *options]
    lines = ["#!/bin/bash", f"#SBATCH --job-name={config['slurm']['job_name']}", "set -e"]
    (run_dir / "rl.sbatch").write_text("\n".join([*lines, " ".join(command) + " --in-a-job", ""]))


def prepare(run_dir, options):
    if run_dir.exists() and not options:
        sys.exit(f"The run directory {run_dir} is not empty.")
    if "--clean" in options:
        shutil.rmtree(run_dir, ignore_errors=True)
    run_dir.mkdir(parents=True, exist_ok=True)


def hold(port):
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("", port))
    server.listen()
    return server


def inference(config, _start):
    router = hold(config["inference"]["server"]["port"])
    engine = ["VLLM::EngineCore", str(config["inference"]["backend_port"])]
    subprocess.Popen(
        [sys.executable, __file__, *engine], start_new_session=True, env=dict(os.environ)
    )
    time.sleep(3600)
    router.close()


def env_server(config, _start):
    server = hold(config["orchestrator"]["env_server_base_port"])
    time.sleep(3600)
    server.close()


def orchestrator(config, start):
    run_dir = Path(config["output_dir"]) / config["run"]["name"]
    metrics = run_dir / config["orchestrator"]["monitors"]["file"]["path"]
    for step in steps("orchestrator", config, start):
        earned = min(1.0, 0.2 + 0.02 * step)
        write(metrics, step, {"train/agg/effective/agent/reward/mean": earned})
        write(metrics, step, {"train/agg/all/agent/metrics/exact_match/mean": earned / 2})
        write(metrics, step, {"off_policy/mean": 1.0, "time/step": 99.0})
        if BEHAVIOUR.get("full_disk_at") == step:
            with open("/dev/full", "w") as full:
                full.write("x" * 100_000)
        last = step == config["max_steps"]
        if (last or step % config["ckpt"]["interval"] == 0) and not BEHAVIOUR.get(
            "checkpoint_torn"
        ):
            half = run_dir / "checkpoints" / f"step_{step}" / "orchestrator"
            half.mkdir(parents=True, exist_ok=True)
            (half / "progress.pt").write_text("progress")


def torchrun(config, start):
    worker = subprocess.Popen(
        [sys.executable, __file__, "trainer", sys.argv[2], str(start)], env=dict(os.environ)
    )
    sys.exit(worker.wait())


def trainer(config, start):
    run_dir = Path(config["output_dir"]) / config["run"]["name"]
    metrics = run_dir / config["trainer"]["monitors"]["file"]["path"]
    for step in steps("torchrun", config, start):
        write(metrics, step, {"perf/throughput": 1000.0})
        write(metrics, step, {"optim/lr": config["trainer"]["optim"]["lr"]})
        kl = BEHAVIOUR.get("kl", 0.001)
        sums = {"loss/mean": 1 / step, "entropy/all/mean": 0.5, "mismatch_kl/all/mean": kl}
        write(metrics, step, sums)
        write(metrics, step, {"time/step": BEHAVIOUR.get("step_seconds", 0.05)})
        broadcast(config, run_dir, step)
        if step == config["max_steps"] or step % config["ckpt"]["interval"] == 0:
            half = run_dir / "checkpoints" / f"step_{step}" / "trainer"
            half.mkdir(parents=True, exist_ok=True)
            (half / "shard.distcp").write_text("state")
            (half / ".metadata").write_text("whole")


def steps(program, config, start):
    """Yield the steps, each in its time, and crash or hang where that is asked for."""
    crash, text, status = BEHAVIOUR.get("crash", {}).get(program, (0, "", 0))
    for step in range(start + 1, config["max_steps"] + 1):
        time.sleep(BEHAVIOUR.get("step_seconds", 0.05))
        if step == crash:
            print(text, file=sys.stderr, flush=True)
            if status < 0:
                os.kill(os.getpid(), -status)
            sys.exit(status)
        yield step
        if step == BEHAVIOUR.get("hang_at"):
            time.sleep(3600)


def write(path, step, values):
    with path.open("a") as file:
        file.write(json.dumps({"step": step, "time": time.time()} | values) + "\n")


def broadcast(config, run_dir, step):
    """Write weights as the trainer does: two shards and an index, or an adapter."""
    folder = run_dir / "broadcasts" / f"step_{step}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    lora = config["trainer"]["model"].get("lora")
    if lora:
        (folder / "adapter_config.json").write_text(json.dumps({"r": lora["rank"]}))
        save(folder / "adapter_model.safetensors", {"lora_A": ("F32", [1], b"\0\0\0\0")})
    else:
        tensors = sorted(load(Path(config["model"]["name"])).items())
        half = len(tensors) // 2
        places = {}
        for number, part in enumerate((tensors[:half], tensors[half:]), 1):
            name = f"model-{number:05}-of-00002.safetensors"
            save(folder / name, dict(part))
            places |= {tensor: name for tensor, _ in part}
        index = {"metadata": {}, "weight_map": places}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "STABLE").touch()


def load(model):
    """Read a model's only safetensors file: name -> type, shape, bytes."""
    blob = (model / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", blob[:8])
    header = json.loads(blob[8 : 8 + length])
    header.pop("__metadata__", None)
    data = blob[8 + length :]
    return {
        name: (entry["dtype"], entry["shape"], data[slice(*entry["data_offsets"])])
        for name, entry in header.items()
    }


def save(path, tensors):
    header, place = {"__metadata__": {"format": "pt"}}, 0
    for name, (kind, shape, data) in tensors.items():
        offsets = [place, place + len(data)]
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": offsets}
        place += len(data)
    text = json.dumps(header).encode()
    body = b"".join(data for _, _, data in tensors.values())
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def main(name, arguments):
    if name == "rl":
        return rl(arguments)
    if BEHAVIOUR.get("stubborn"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if name == "VLLM::EngineCore":
        engine = hold(int(arguments[0]))
        time.sleep(3600)
        return engine.close()
    programs = {
        "inference": inference,
        "env-server": env_server,
        "orchestrator": orchestrator,
        "torchrun": torchrun,
        "trainer": trainer,
    }
    config = tomllib.loads(Path(arguments[0]).read_text())
    return programs[name](config, int(arguments[1]))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
