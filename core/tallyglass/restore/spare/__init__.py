"""The spare server: started, proven to be the spare, verified."""
