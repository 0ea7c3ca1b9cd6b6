"""Any OpenAI-compatible server as a policy."""
