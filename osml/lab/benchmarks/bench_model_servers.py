"""The same ONNX file behind our `/v2`, MLServer, BentoML and plain FastAPI: requests a second and CPU time of each.

All servers have one core and one thread of onnxruntime. The other core asks, over four connections. MLServer and
BentoML get environments of their own in out/model-servers, which takes a minute and the network once.
"""

from __future__ import annotations

import msgspec

from osml.lab.benchmarks.harness import OUT
from osml.lab.benchmarks.model_servers.compare import compare
from osml.lab.benchmarks.model_servers.servers import SERVERS
from osml.predictors import models_folder

MODEL = "a2-masked-e5-2697v4"
ROUNDS, SECONDS = 25, 0.6  # many short ones: who else uses the machine changes within seconds


def run() -> None:
    """Store the figures in out/bench/model_servers.json and print them."""
    found = compare(SERVERS, models_folder() / MODEL, rounds=ROUNDS, seconds=SECONDS)
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / f"{found.name}.json").write_bytes(msgspec.json.format(msgspec.json.encode(found)) + b"\n")
    for name, why in found.left_out.items():
        print(f"{name} is left out: {why}")
    for case in found.cases:
        rate, cpu = case.requests_per_s.median, case.cpu_us
        line = f"{case.server:24} {case.rows:3} rows {rate:8.0f} requests/s {cpu.median:8.0f} us CPU"
        print(f"{line} ({cpu.min:.0f} .. {cpu.max:.0f})  {case.cpu_ratio:6.2f} x {found.cases[0].server}")
