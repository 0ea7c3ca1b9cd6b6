"""Looks at the machine, the project and its servers, and says how to mend what is not right."""
