"""Complete texts over HTTP: ``python serve.py [PORT]``, then ``curl HOST:PORT/PROMPT``."""

import sys
import urllib.parse
from http.server import BaseHTTPRequestHandler, HTTPServer

import torch
from model import GPT, generate

DEVICE = "cuda"
torch.manual_seed(0)
MODEL = GPT().to(DEVICE).eval()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        prompt = urllib.parse.unquote_to_bytes(self.path[1:]) or b"\n"
        answer = generate(MODEL, prompt, 16, DEVICE).hex().encode() + b"\n"
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


if __name__ == "__main__":
    generate(MODEL, b"\n", 1, DEVICE)  # compiles the kernels before the pod is ready
    HTTPServer(("", int(sys.argv[1]) if len(sys.argv) > 1 else 8000), Handler).serve_forever()
