"""The terminal: the command line, and the dashboard built with Textual."""

import os

# Textual reads this once, when it is first imported. It bounds how long a key waits for its frame; frames are only
# drawn where something changed, so that a higher rate costs nothing.
os.environ.setdefault("TEXTUAL_FPS", "120")
