"""Measurements that the documentation's numbers come from; each is one command."""
