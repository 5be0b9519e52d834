"""Java and JavaScript source text as values, as the leaderboard reads it and strictly."""
