"""Results of the papers' policies, one fact after the other, beside those of our runs."""
