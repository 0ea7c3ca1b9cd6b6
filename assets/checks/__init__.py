"""Great Expectations suites and their pages."""
