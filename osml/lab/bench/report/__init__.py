"""From rows to a report that can be read: tables with intervals, plots, the papers' numbers beside ours."""
