"""What the models say of the services: predicted allocations, corrections, and when an answer is not used."""
