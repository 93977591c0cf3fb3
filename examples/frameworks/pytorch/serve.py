"""Complete texts over HTTP: ``python serve.py [PORT]``, then ``curl HOST:PORT/PROMPT``.

``/metrics`` has the requests and their durations, in the names that Prometheus users know.
"""

import sys
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, HTTPServer

import torch
from metrics import Requests
from model import GPT, generate

DEVICE = "cuda"
torch.manual_seed(0)
MODEL = GPT().to(DEVICE).eval()
REQUESTS = Requests()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/metrics":
            self.answer(REQUESTS.text().encode(), "text/plain; version=0.0.4")
            return
        began = time.perf_counter()
        prompt = urllib.parse.unquote_to_bytes(self.path[1:]) or b"\n"
        answer = generate(MODEL, prompt, 16, DEVICE).hex().encode() + b"\n"
        REQUESTS.observe(time.perf_counter() - began)
        self.answer(answer, "text/plain")

    def answer(self, answer: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


if __name__ == "__main__":
    generate(MODEL, b"\n", 1, DEVICE)  # compiles the kernels before the pod is ready
    HTTPServer(("", int(sys.argv[1]) if len(sys.argv) > 1 else 8000), Handler).serve_forever()
