"""Reading SQL text: statements, tokens, and which of them would write."""
