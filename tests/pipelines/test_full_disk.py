"""A full disk below the artifact root: one sentence that names it, and the next run goes on."""

import os
import re
import subprocess
import sys

import pytest

from pipelines.runs.records import disk_full
from text2sql.common.checkout import CHECKOUT

OWN_DISK = ["unshare", "--map-root-user", "--mount", "sh", "-ec"]
ON_SMALL_DISK = (
    'mount -t tmpfs -o size={size} tmpfs "$0"; TEXT2SQL_ROOT="$0" "$1" -m pipelines.lifecycle'
)


def has_own_disks(folder) -> bool:
    """Say whether this user may mount a small disk that only its own processes see."""
    try:
        tried = subprocess.run([*OWN_DISK, 'mount -t tmpfs tmpfs "$0"', str(folder)])
    except FileNotFoundError:
        return False
    return tried.returncode == 0


@pytest.mark.slow
def test_the_demo_on_a_full_disk_ends_with_one_sentence(tmp_path):
    if not has_own_disks(tmp_path):
        pytest.skip("needs unshare and user namespaces (Linux)")
    done = subprocess.run(
        [*OWN_DISK, ON_SMALL_DISK.format(size="2M"), str(tmp_path), sys.executable],
        cwd=CHECKOUT,
        env=os.environ,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if line]
    full = r"error: .*(disk is full|No space left on device|disk I/O error)"
    assert re.match(full, line), line
    assert f"The disk that holds {tmp_path}" in line
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "reason",
    [
        "[Errno 28] No space left on device: 'x'",
        "database or disk is full",
        "(sqlite3.OperationalError) disk I/O error",
    ],
)
def test_a_full_disk_is_recognised_in_what_failed(tmp_path, reason):
    assert f"The disk that holds {tmp_path} has " in disk_full(reason, tmp_path / "log")


def test_another_reason_says_nothing_of_the_disk(tmp_path):
    assert disk_full("gold_results failed: no such table: disk", tmp_path / "log") == ""


def test_a_vllm_log_that_cannot_be_written_names_the_disk(tmp_path):
    if not has_own_disks(tmp_path):
        pytest.skip("this user may not mount a disk of its own")
    script = 'mount -t tmpfs -o size=1m tmpfs "$0"; cat /dev/zero > "$0/rest" 2>&- || true; '
    script += '"$1" -c "$2" "$0"'
    ask = "import sys, pathlib; from text2sql.policy.vllm.server import failure_in; "
    ask += "print(failure_in(pathlib.Path(sys.argv[1]) / 'vllm.log'))"
    command = [*OWN_DISK, script, str(tmp_path), sys.executable, ask]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    told = f"The disk of its log is full (0 MB free at {tmp_path}): make room and start it again.\n"
    assert done.stdout == told
