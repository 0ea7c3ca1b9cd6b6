"""A policy directory's revision: what shapes the replies changes it, and nothing else does."""

from __future__ import annotations

import pytest

from text2sql.errors import Text2SqlError
from text2sql.policy.weights import directory_revision

SHAPING = ("model-00001-of-00002.safetensors", "config.json", "generation_config.json")
READING = ("tokenizer.json", "tokenizer.model", "vocab.json", "merges.txt", "added_tokens.json")
ASKING = ("special_tokens_map.json", "chat_template.jinja", "agent_config.json")


@pytest.fixture
def folder(tmp_path):
    for name in (*SHAPING, *READING, *ASKING):
        (tmp_path / name).write_text("1")
    return tmp_path


@pytest.mark.parametrize("name", [*SHAPING, *READING, *ASKING])
def test_files_that_shape_replies_change_the_revision(folder, name):
    before = directory_revision(folder)
    (folder / name).write_text("2")
    changed = directory_revision(folder)
    (folder / name).unlink()
    gone = set() if name.endswith(".safetensors") else {directory_revision(folder)}
    assert before not in {changed} | gone


@pytest.mark.parametrize("name", ["README.md", "optimizer.pt", "trainer_state.json"])
def test_other_files_do_not_change_the_revision(folder, name):
    before = directory_revision(folder)
    (folder / name).write_text("2")
    assert directory_revision(folder) == before


def test_a_folder_without_weights_has_none(folder):
    (folder / SHAPING[0]).unlink()
    with pytest.raises(Text2SqlError, match=r"has no \*\.safetensors weights"):
        directory_revision(folder)
