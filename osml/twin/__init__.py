"""Your node's twin: a virtual node made from an agent's record, what it predicts, and what it advises."""
