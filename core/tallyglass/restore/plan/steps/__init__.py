"""The steps of a plan: every command that a person runs, and the files that it needs."""
