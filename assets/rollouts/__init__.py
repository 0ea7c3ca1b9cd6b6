"""Sampling rollouts of a policy, sharded."""
