"""Scheduled questions and their answers, without any database."""
