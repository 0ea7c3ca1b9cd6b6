"""Reading SQL text: its statements, and which of them would write."""
