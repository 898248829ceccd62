"""Undo an incident from the pre-images that its collection keeps: without a backup, and without a spare."""
