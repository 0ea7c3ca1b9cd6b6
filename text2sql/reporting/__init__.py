"""Questions that are answered on a schedule, and the tables that keep the answers.

Nothing is imported here: SQLAlchemy and PyYAML are loaded by the modules that need them.
"""
