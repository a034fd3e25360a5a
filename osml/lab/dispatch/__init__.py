"""The dispatch study: the figures of the paper, farms beyond it, and an event simulation as a second opinion."""
