"""The pocket corpus and policy: a small generated world that needs no download."""
