"""When and how it runs: definitions, jobs, schedules, the demo and the UI."""
