"""What every strategy stands on: attempts, outcomes, deadlines, forks, event loops, the meter."""
