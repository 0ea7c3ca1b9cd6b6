"""Sample rollouts of a policy in shards."""
