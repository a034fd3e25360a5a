"""The laboratory: the papers' experiments on the virtual node and on this machine. Nothing of the product needs it."""
