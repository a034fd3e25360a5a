"""What the policy `osml` carries from one decision to the next."""
