#!/bin/sh
# usage: install.sh DIRECTORY PIP-ARGUMENT...
# pip-install into a virtual environment: from the wheels beside this file where there are any
# (pip itself among them), else from the package index.
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
# Compiled ahead of time are also the Kubernetes client's thousands of models and calls, which nothing
# here imports: 40 MiB in every node.
find "$venv" \( -path '*/kubernetes/*/models/__pycache__/*' -o -path '*/kubernetes/*/api/__pycache__/*' \) \
  ! -name '__init__.*' -delete
