"""What an incident did, document by document, and what undoes it: the accident, its history, the account afterwards."""
