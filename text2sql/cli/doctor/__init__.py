"""Checks the machine, the installation and its servers, and says how to fix what is wrong."""
