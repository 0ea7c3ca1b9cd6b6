"""What the tests of whole runs share: a served policy of a known strength, and process lists."""

import contextlib
import os
import random
import time
from collections.abc import Iterable
from pathlib import Path

from tests.support.scripted_server import ScriptedServer, asked_in, replies_with
from text2sql.datasets.stored import load_current, load_questions

SIZES = {"train": 16, "new_databases": 8, "unseen_words": 4, "general": 0}
CORPUS = {"bird_archive": {"config": {"sizes": SIZES}}}


def answering(root: Path, chance: float, seconds: float = 0.0, name: str = "scripted"):
    """Serve a policy that submits the gold query with this chance, after this time.

    Without tools it answers in a code block.
    """
    golds: dict[str, str] = {}
    dice = random.Random(name)

    def reply(body):
        if not golds:
            for split in load_current(root).splits:
                golds.update({q.question: q.sql for q in load_questions(root, split)})
        asked = asked_in(body)
        luck = random.Random(asked).random() if not body.get("temperature") else dice.random()
        time.sleep(seconds)
        return replies_with(golds[asked] if luck < chance else "SELECT 1", body)

    return ScriptedServer(reply, [name])


def processes_below(root: Path) -> list[int]:
    """Return the processes that work on an artifact root, beside this one."""
    wanted, found = f"TEXT2SQL_ROOT={root}".encode(), []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # it ended meanwhile
            if wanted in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                found.append(int(pid))
    return [pid for pid in found if pid != os.getpid()]


def commands(pids: Iterable[int]) -> list[str]:
    """Return the command lines of those processes that are still there: what to say of them."""
    found = []
    for pid in pids:
        with contextlib.suppress(OSError):
            found.append(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found
