"""The container images: no engine builds them here, but what they copy, pin and run is there."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

from tests.support.prime_rl_place import Place
from text2sql.training.prime_rl.checkout import package, prime_rl_commit
from text2sql.training.prime_rl.toml import WRITTEN_FOR

REPO = Path(__file__).resolve().parents[2]
KUBERNETES = REPO / "deploy" / "kubernetes"
TRAINING = KUBERNETES / "training" / "Dockerfile"
FILES = [KUBERNETES / "Dockerfile", TRAINING]


def instructions(file: Path) -> list[tuple[str, str]]:
    """Return a Dockerfile's instructions with their arguments, each on one line."""
    text = re.sub(r"^#.*\n", "", file.read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines) if word]


def given(file: Path, word: str) -> list[str]:
    """Return the arguments of every such instruction."""
    return [rest for name, rest in instructions(file) if name == word]


def is_ignored(file: Path, name: str) -> bool:
    """Say whether a build leaves a file of the checkout out: the last pattern that fits counts."""
    ignored = False
    for line in file.with_name(f"{file.name}.dockerignore").read_text().splitlines():
        pattern = line.removeprefix("!").removeprefix("**/")
        if fnmatch(name, pattern) or fnmatch(name, f"{pattern}/*"):
            ignored = not line.startswith("!")
    return ignored


@pytest.mark.parametrize("file", FILES, ids=["pods", "training"])
def test_what_is_copied_is_there_and_not_ignored(file):
    sources = [source for line in given(file, "COPY") for source in line.split()[:-1]]
    assert sources
    for source in sources:
        assert (REPO / source).exists(), source
        assert source == "." or not is_ignored(file, source), source
    assert is_ignored(file, "tests/training/test_images.py") and is_ignored(file, ".git")


@pytest.mark.parametrize("file", FILES, ids=["pods", "training"])
def test_what_is_built_on_is_pinned_and_the_user_is_the_pods(file):
    (base,) = given(file, "FROM")
    defaults = dict(line.split("=", 1) for line in given(file, "ARG") if "=" in line)
    base = defaults.get(base.strip("${}"), base)
    assert ":" in base and not base.endswith(":latest")
    assert given(file, "USER")[-1] == "1000"


def test_the_training_image_pins_what_the_code_and_the_docs_name():
    assert f"PRIME_RL_COMMIT={WRITTEN_FOR}" in given(TRAINING, "ARG")
    assert WRITTEN_FOR in (REPO / "docs" / "training.md").read_text()
    extras = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]
    wanted = set(re.findall(r"dagster-pipes==[\d.]+", " ".join(given(TRAINING, "RUN"))))
    assert wanted <= set(extras["optional-dependencies"]["pipelines"]) and len(wanted) == 1


def test_the_pods_template_fits_the_image():
    pod = yaml.safe_load((TRAINING.parent / "pod.yaml").read_text())["spec"]
    environment = {one["name"]: one.get("value") for one in pod["containers"][0]["env"]}
    (values,) = given(TRAINING, "ENV")
    assert f"PRIME_RL_DIR={environment['PRIME_RL_DIR']} " in values
    assert str(pod["securityContext"]["runAsUser"]) == given(TRAINING, "USER")[-1]
    python = f"{environment['PRIME_RL_DIR']}/.venv/bin/python"
    assert f"--python {python} " in " ".join(given(TRAINING, "RUN"))
    assert f"python: {python}" in (REPO / "docs" / "training.md").read_text()


def test_what_the_build_tries_at_its_end_needs_no_dagster():
    (tried,) = re.findall(r'-P -c "(.*?)"', given(TRAINING, "RUN")[-1])
    code = f"{tried}; import sys; print(sorted({{'dagster', 'pandas'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines() == [str(package()), "[]"], done.stderr


def test_an_image_of_other_code_than_the_steps_refuses_to_train(tmp_path):
    place = Place(tmp_path)
    command = place.command()
    plan = json.loads(Path(command[-1]).read_text())
    Path(command[-1]).write_text(json.dumps(plan | {"code": "0123456789abcdef"}))
    done = subprocess.run(command, env=place.environment, capture_output=True, text=True, cwd=REPO)
    assert done.returncode == 1 and "rebuild the training image" in done.stderr
    assert not place.run_dir.exists()


def test_an_image_tells_its_commit_by_a_file(tmp_path):
    place = Place(tmp_path)
    assert len(prime_rl_commit(place.prime_rl)) == 40
    shutil.rmtree(place.prime_rl / ".git")
    assert prime_rl_commit(place.prime_rl) == "unknown"
    (place.prime_rl / "COMMIT").write_text(f"{WRITTEN_FOR}\n")
    assert prime_rl_commit(place.prime_rl) == WRITTEN_FOR
