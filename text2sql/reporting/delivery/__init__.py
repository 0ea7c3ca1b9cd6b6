"""Bringing answers to people: pages, mail, webhooks and exports."""
