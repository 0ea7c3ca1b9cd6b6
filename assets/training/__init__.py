"""The difficulty filter and GRPO."""
