"""memcached on machines of a cloud: beside one program, over threads and CPUs, and beside batch jobs."""
