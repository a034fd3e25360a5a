"""Delays of the simulated CFS (plain threads) beside those of the node's closed form."""
# pyright: basic

import numpy as np

from osml.lab.studies.cfs_simulation import sim
from osml.simulator.physics.cpu import crowding, empty_areas, map_cpus


def compare(cpus: int, service_ms: tuple[float, ...], load: float, jobs: int) -> None:
    """Print share of requests that wait and mean wait in ms, simulated and by formula, of each service.

    Each service keeps `load` CPUs busy; `jobs` threads always run.
    """
    n = len(service_ms)
    lengths = np.array(service_ms)
    found, counts, job_cpus = sim(
        3, cpus, n, load / lengths * 1000.0, lengths, np.full(n, 1e-6), jobs, 100.0, 24.0, 3.0, 4.0, 0.5
    )
    areas = empty_areas(n + 1)
    map_cpus(areas, np.full(cpus, (1 << n + 1) - 1, np.int64), cpus)
    used = np.zeros((n + 1, len(areas.sizes)))
    used[:n, 0], used[n, 0] = load, job_cpus
    runnable, lengths_s = np.array([load] * n + [jobs]), np.array([*lengths / 1000.0, 0.0])
    texts: list[str] = []
    for i in range(n):
        late = found[i, 100 : counts[i]] - service_ms[i] - 0.05
        waiting = late[late > 0.1]
        ours = crowding(areas, used, runnable, lengths_s, np.zeros(n + 1), i, 4.0, 3.0, 1.0, False)
        mean = waiting.mean() if len(waiting) else 0.0
        texts.append(f"{len(waiting) / len(late):4.0%} {mean:4.1f} ms, formula {ours[0]:4.0%} {ours[1]:4.1f} ms")
    print(f"{cpus} CPUs, services use {load * n:.2f}, {jobs} job threads {job_cpus:.2f}: " + "; ".join(texts))


def main() -> None:
    """Fewer jobs than CPUs, and a job on every CPU."""
    for jobs in (4, 8):
        for cpus in (6, 8, 10):
            for load in (0.3, 0.6, 0.85, 1.1):
                compare(cpus, (1.0, 1.0, 1.0), load, jobs)


if __name__ == "__main__":
    main()
