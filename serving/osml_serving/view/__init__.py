"""What the dashboard shows: intervals, their history, explanations, the event stream."""
