"""Training: pre-training of the pocket policy and reinforcement learning."""
