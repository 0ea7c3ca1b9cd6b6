"""Reading tool calls and thoughts out of the text that a model wrote."""
