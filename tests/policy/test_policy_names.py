"""What a policy in a directory is called."""

from pathlib import Path

import pytest

from text2sql.policy.open import policy_directory
from text2sql.policy.places import policy_name


@pytest.mark.parametrize(
    ("directory", "name"),
    [
        ("/models/qwen3-4b", "qwen3-4b"),
        ("/kept/training/june/0f3a/policy", "june"),
        ("/models/shop/policy", "shop"),
        ("/policy", "policy"),
    ],
)
def test_the_name_distinguishes_policies(directory, name):
    assert policy_name(Path(directory)) == name


def test_the_pocket_policy_is_called_so():
    assert policy_name(policy_directory("pocket")) == "pocket"
