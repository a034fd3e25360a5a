"""Hours of nodes that differ from the catalog, with and without Model-C', and with one that learns on the node.

python -m osml.lab.studies.day
"""
