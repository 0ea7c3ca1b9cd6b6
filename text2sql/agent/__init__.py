"""One rollout: the chat loop between a policy and the tools, with prompts and schema."""
