"""Dev rollouts, scores and the model card."""
