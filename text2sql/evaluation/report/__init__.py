"""The report of an evaluation: one HTML page, its numbers as JSON, and every rollout as CSV."""
