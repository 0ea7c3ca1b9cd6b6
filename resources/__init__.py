"""What assets talk to: the artifact root, the sandbox, policies and the trainer."""
