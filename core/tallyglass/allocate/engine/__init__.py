"""The basis of all allocators: retries, outcomes, deadlines, forks, event loops, counts."""
