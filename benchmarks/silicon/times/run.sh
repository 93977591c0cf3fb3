#!/bin/bash
# Times all points of the bundles beside this file; results go to $OUT/times.tar.gz.
cd "$(dirname "$0")"
export CUDA_CACHE_DISABLE=1 PYTHONUNBUFFERED=1
flags=$TIMES_FLAGS
python=${TIMES_PYTHON:-python3}
results=$(mktemp -d)
pack() { tar czf "$OUT/times.tar.gz" -C "$results" .; }
trap pack EXIT
nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,clocks.applications.graphics,power.limit,temperature.gpu,mig.mode.current,ecc.mode.current --format=csv > "$results/smi.txt" 2>&1
timeout 25 $python facts.py "$results/facts.json" $flags || echo "facts: status $?"
for bundle in bundle_*.json; do
  left=$((${TIMES_TOTAL:-145} - SECONDS))
  [ "$left" -gt 5 ] || break
  timeout $((left < ${TIMES_LIMIT:-45} ? left : ${TIMES_LIMIT:-45})) $python runner.py "$bundle" "$results/${bundle#bundle_}" $flags || echo "$bundle: status $?"
done
$python - "$results" <<'P'
import json, pathlib, sys
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.json")):
    if path.name != "facts.json":
        d = json.loads(path.read_text())
        print(path.name, d["gpu"], len(d["points"]), "points", round(d.get("seconds", -1), 1), "s")
P
