"""Model-C online: it learns by acting on virtual nodes, or from what real nodes recorded."""
