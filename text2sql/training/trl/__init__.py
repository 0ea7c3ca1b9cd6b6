"""GRPO on one machine with TRL."""
