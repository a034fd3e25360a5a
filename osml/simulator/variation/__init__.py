"""Nodes, machines and sensors other than those of the catalogs, drawn by seed: what nobody was trained or tuned on."""
