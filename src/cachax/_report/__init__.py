"""What happened, and why: recordings, explanations, and how they are shown."""
