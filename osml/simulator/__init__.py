"""The virtual node: a machine made of equations that exports the files of a kernel.

Everything it measures is simulated. `physics` has its equations, `engine` is the pure core, `kernel` the emulated file
systems, `mount` the process that puts both behind real files.
"""
