"""What attention does: its measures, and real text to take them on."""
