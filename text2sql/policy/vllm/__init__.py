"""vLLM as a child process that serves a policy."""
