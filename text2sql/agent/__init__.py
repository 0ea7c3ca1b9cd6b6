"""One rollout: the chat loop, its tools and its prompts."""
