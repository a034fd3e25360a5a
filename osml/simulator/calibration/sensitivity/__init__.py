"""How much hangs on each assumed number: 30 % less and more of it, one at a time, and what that changes.

For each: how many published facts the node still meets, and in which order five policies come out on 24 mixes. A
variant runs in a process of its own, where the number is replaced before anything is compiled; the machine code of a
changed compiled constant is thrown away with the process's folder. Services are not fitted again, but where the number
itself only acts through the fit (`fit.py`).
"""
