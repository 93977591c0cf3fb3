"""Writes an object to the API server that KUBECONFIG names: ``python put_object.py PATH JSON``."""

import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path

config = json.loads(Path(os.environ["KUBECONFIG"]).read_text())
server = config["clusters"][0]["cluster"]["server"]
path, body = sys.argv[1:]
name = json.loads(body)["metadata"]["name"]
try:
    urllib.request.urlopen(f"{server}{path}/{name}", timeout=60)
except urllib.error.HTTPError:
    request = urllib.request.Request(
        f"{server}{path}", body.encode(), {"Content-Type": "application/json"}, method="POST"
    )
    urllib.request.urlopen(request, timeout=60)
