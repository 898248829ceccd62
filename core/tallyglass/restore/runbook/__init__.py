"""The emitted commands and the script."""
