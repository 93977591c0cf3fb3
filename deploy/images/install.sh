#!/bin/sh
# usage: install.sh DIRECTORY PIP-ARGUMENT...
# Run pip install in a virtual environment: from wheels in this file's directory, if there are any
# (including pip's), otherwise from the package index.
set -e
here=$(cd "$(dirname "$0")" && pwd)
venv=$1
shift
[ -e "$venv/bin/python" ] || python3 -m venv --without-pip "$venv"
pip=$(find "$here" -name 'pip-*.whl' | head -n 1)
if [ -n "$pip" ]; then
  PYTHONPATH=$pip "$venv/bin/python" -m pip install --no-cache-dir --no-index --find-links "$here" "$@"
else
  python3 -m pip --python "$venv/bin/python" install --no-cache-dir "$@"
fi
# pip also compiles thousands of modules of the Kubernetes client that Tessera never imports: 40 MiB on
# every node.
find "$venv" \( -path '*/kubernetes/*/models/__pycache__/*' -o -path '*/kubernetes/*/api/__pycache__/*' \) \
  ! -name '__init__.*' -delete
