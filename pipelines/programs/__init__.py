"""Programs that run jobs from a command line."""
