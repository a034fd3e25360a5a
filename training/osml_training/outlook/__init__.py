"""Model-C': rows from simulated nodes under the policy `osml`, and the network that learns from them."""
