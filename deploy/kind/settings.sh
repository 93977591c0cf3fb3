# Paths, names and functions for all scripts in this folder. To be sourced, not run.
# shellcheck shell=bash
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=versions.env
. "$here/versions.env"

CLUSTER=${TESSERA_CLUSTER:-tessera}
CACHE=${TESSERA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tessera-cluster}
TOOLS=$CACHE/bin          # kind, kubectl, helm; on PATH
NODE_BIN=$CACHE/node-bin  # programs inside nodes. Never on PATH: a Docker engine that finds
                          # this containerd-shim there cannot start containers.
LOGS=$CACHE/log
mkdir -p "$TOOLS" "$NODE_BIN" "$LOGS"
export KUBECONFIG=$CACHE/$CLUSTER.kubeconfig   # the user's own kubeconfig is not changed

# Images built from files in this folder have a hash of them as their name.
# shellcheck disable=SC2034 # used by scripts that source this file
NODE_IMAGE=tessera.local/node:$KUBERNETES-$(cat "$here"/versions.env "$here"/build-node-image \
  "$here"/store-images "$here"/node/* | sha256sum | cut -c1-12)
# The same with Tessera's images, as they were when deploy/images/build last stored them: before the first
# nodes started, or after it had loaded much into nodes.
# shellcheck disable=SC2034
LOADED_NODE_IMAGE=tessera.local/node-loaded:${NODE_IMAGE##*:}
# shellcheck disable=SC2034
STORED=dev.tessera.node-image=stored   # the label of both

say() { printf '%s\n' "$*"; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

step() { # description log command...: run quietly, print the duration; on failure print the log's end
  local what=$1 log=$LOGS/$2 start=$SECONDS status; shift 2
  printf '  %-58s' "$what"
  set +e; ( set -e; "$@" ) >"$log" 2>&1; status=$?; set -e   # in an `if`, -e has no effect
  if [ $status -eq 0 ]; then printf '%4d s\n' $((SECONDS - start)); return; fi
  printf ' failed\n'
  { echo "--- last lines of $log"; tail -n 25 "$log"; } >&2
  fail "$what: see $log"
}

# "source" or "published": the origin of the node image and the base image. Determined once.
images_from() {
  if [ "${FROM_SOURCE:-}" = 1 ]; then echo source; return; fi
  if [ ! -s "$CACHE/images-from" ]; then
    if docker image inspect python:3.13-slim >/dev/null 2>&1 ||
       timeout 120 docker pull -q python:3.13-slim >"$LOGS/pull.log" 2>&1
    then echo published; else echo source; fi >"$CACHE/images-from"
  fi
  cat "$CACHE/images-from"
}

debian_mirror() { # print the address of this machine's Debian mirror
  # shellcheck disable=SC2016 # apt expands it
  apt-get indextargets --no-release-info --format '$(REPO_URI)' 'Created-By: Packages' 'Component: main' |
    awk '!/security/ && !seen++'
}

PATH_LINE='ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
debian() { # suite packages image: a Debian root file system from this machine's mirror
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

module_folder() { # module version: download a Go module; print the folder of its source
  go mod download -json "$1@$2" | sed -n 's/.*"Dir": "\(.*\)",*/\1/p'
}

remove_other_tags() { # image: earlier ones; nodes that still run keep theirs
  docker images --format '{{.Repository}}:{{.Tag}}' "${1%:*}" | grep -vxF "$1" | xargs -r docker rmi || true
}

one_at_a_time() { # file what: lock the file until this process ends, after another process that has it
  exec 9>"$1"; flock -n 9 || { say "waiting for another $2 to end"; flock 9; }
}

engine_answers() { docker info >/dev/null 2>&1; }

PATH=$TOOLS:$PATH
