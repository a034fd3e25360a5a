"""Who slows the services of a node: the twins say, in a process of their own, when somebody asks."""
