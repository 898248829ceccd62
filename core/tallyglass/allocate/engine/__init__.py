"""What every allocator is built on: retries, outcomes, deadlines, forks, event loops, counts."""
