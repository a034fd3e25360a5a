"""`stub.py DIALECT PORT MODEL [OFFSET]`: a server of the model without any framework, for tests of the benchmark."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np

from osml.predictors import load_predictor

DIALECT, PORT, MODEL = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
OFFSET = float(sys.argv[4]) if len(sys.argv) > 4 else 0.0
PREDICTOR = load_predictor(MODEL)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        question = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if DIALECT == "array":
            features = np.array(question["features"])
        else:
            features = np.reshape(question["inputs"][0]["data"], question["inputs"][0]["shape"])
        points, spread, _ = PREDICTOR.predict(features)
        points = points + OFFSET
        if DIALECT == "array":
            answer = [points.tolist(), spread.tolist()]
        else:
            named = {"points": points, "spread": spread}
            answer = {"outputs": [{"name": n, "shape": x.shape, "data": x.ravel().tolist()} for n, x in named.items()]}
        content = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
