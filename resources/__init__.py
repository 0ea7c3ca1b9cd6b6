"""What assets talk to: artifact root, sandbox, policies, trainer, reporting tables, delivery."""
