"""A model in this process, on the CPU or one GPU."""
