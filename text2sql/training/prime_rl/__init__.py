"""GRPO on GPUs with prime-rl: settings, its configuration file, and the program that runs it."""
