"""The bench: every policy on the same mixes, under the same noise and delays, beside what was published."""
