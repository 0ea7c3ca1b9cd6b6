"""Where replies come from: an OpenAI-compatible server, or a model in this process."""
