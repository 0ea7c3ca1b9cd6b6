"""The pages of the documentation that are written by the code that they describe."""
