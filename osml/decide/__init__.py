"""The front door: an observation is checked, a policy is asked, its answer is laid out and checked again."""
