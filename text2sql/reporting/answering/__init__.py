"""Answering scheduled questions: candidates, votes, and reasons not to publish."""
