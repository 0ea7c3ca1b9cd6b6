"""The environment's package as verifiers finds it: importing it imports verifiers (seconds)."""

from text2sql.training.verifiers_env import Text2SqlHarness, Text2SqlTaskset

__all__ = ["Text2SqlHarness", "Text2SqlTaskset"]
