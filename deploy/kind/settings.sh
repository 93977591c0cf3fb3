# Paths, names and messages that all scripts of this folder share. Sourced, never run.
# shellcheck shell=bash
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=versions.env
. "$here/versions.env"

CLUSTER=${TESSERA_CLUSTER:-tessera}
CACHE=${TESSERA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tessera-cluster}
TOOLS=$CACHE/bin          # kind, kubectl, helm: on PATH
NODE_BIN=$CACHE/node-bin  # what runs inside nodes. Never on PATH: a Docker engine that finds
                          # this containerd-shim there starts no container any more.
LOGS=$CACHE/log
mkdir -p "$TOOLS" "$NODE_BIN" "$LOGS"
export KUBECONFIG=$CACHE/$CLUSTER.kubeconfig   # the user's own file and context stay untouched

# Images that are made of files here are named by what they are made of.
# shellcheck disable=SC2034 # for those who source this
NODE_IMAGE=tessera.local/node:$KUBERNETES-$(cat "$here"/versions.env "$here"/build-node-image \
  "$here"/node/* | sha256sum | cut -c1-12)

say() { printf '%s\n' "$*"; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

step() { # description log command...: run quietly, tell how long it took; on failure show the log's end
  local what=$1 log=$LOGS/$2 start=$SECONDS status; shift 2
  printf '  %-58s' "$what"
  set +e; ( set -e; "$@" ) >"$log" 2>&1; status=$?; set -e   # in an `if`, -e would not hold
  if [ $status -eq 0 ]; then printf '%4d s\n' $((SECONDS - start)); return; fi
  printf ' failed\n'
  { echo "--- last lines of $log"; tail -n 25 "$log"; } >&2
  fail "$what: see $log"
}

# "source" or "published": where the node image and the base image come from. Asked once.
images_from() {
  if [ "${FROM_SOURCE:-}" = 1 ]; then echo source; return; fi
  if [ ! -s "$CACHE/images-from" ]; then
    if docker image inspect python:3.13-slim >/dev/null 2>&1 ||
       timeout 120 docker pull -q python:3.13-slim >"$LOGS/pull.log" 2>&1
    then echo published; else echo source; fi >"$CACHE/images-from"
  fi
  cat "$CACHE/images-from"
}

debian_mirror() { # the address of the machine's own Debian mirror
  # shellcheck disable=SC2016 # apt fills it in
  apt-get indextargets --no-release-info --format '$(REPO_URI)' 'Created-By: Packages' 'Component: main' |
    awk '!/security/ && !seen++'
}

PATH_LINE='ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
debian() { # suite packages image: a Debian root file system from the machine's own mirror
  local tar
  tar=$CACHE/node/$1-$(echo "$2" | sha256sum | cut -c1-8).tar
  if [ ! -s "$tar" ]; then
    mkdir -p "$CACHE/node"
    mmdebstrap --quiet --format=tar --variant=minbase --include="$2" --dpkgopt='path-exclude=/usr/share/doc/*' \
      --dpkgopt='path-exclude=/usr/share/man/*' "$1" "$tar.new" "$(debian_mirror)"
    mv "$tar.new" "$tar"
  fi
  docker import -c "$PATH_LINE" "$tar" "$3"
}

engine_answers() { docker info >/dev/null 2>&1; }

PATH=$TOOLS:$PATH
