"""What the policy `osml` remembers from decision to decision."""
