"""What exists: data, rollouts, prompts, policies, scores and answers, as Dagster assets."""
