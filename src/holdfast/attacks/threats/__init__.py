"""What an attacker may change: norm balls, flows, colours, weather; most files register their attack too."""
