"""From the experience store to a promoted Model-C: read, learn, judge, promote, take back."""
