"""The mathematics of Ah-Q (Liu et al., TPDS 2024) beside its entropy: TLT, DIP, inversions, resource equivalence.

Pure functions on numbers that somebody measured; `osml.lab.theory.experiments` measures them on the virtual node.
"""
