"""Whether a submission is right: results compared, verdicts, rewards, votes and reward strength."""
