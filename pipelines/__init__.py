"""When and how it runs: definitions, jobs, schedules, the whole life in one command and the UI."""

from pipelines.runs.uncaught import tell_sentences

tell_sentences()
