"""The versions of the reporting tables, each as a step from the one before (Alembic).

A released step never changes. A new one goes into ``versions`` with the next number, and the
number into ``text2sql.reporting.tables.migrating.NEWEST``.
"""
