"""One thin command per verb; nothing heavy is imported before a command needs it."""
