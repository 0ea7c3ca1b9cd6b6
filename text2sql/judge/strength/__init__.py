"""Reward strength: how many near-misses of a gold query the reward tells apart from it."""
