"""The command line's commands, one module each, loaded when they are called."""
