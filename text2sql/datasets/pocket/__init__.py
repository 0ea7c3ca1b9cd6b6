"""The pocket corpus and what the pocket policy is made of: a small world that needs no download."""
