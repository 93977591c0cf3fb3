# Root file systems for ./check, as archives in $cache. To be sourced, not run.
# shellcheck shell=bash
# Debian's own: suites such as bookworm, and `noble` with a mirror of Ubuntu. Those that are like other
# distributions consist of Debian's packages: ubuntu-like has the newest Python and glibc, of testing, and an
# ordinary user; fedora-like has the layout that ./fedora-layout makes, and CPython without Debian's changes.
testing=forky
stable=trixie  # of which a mirror has the sources, too

# Of a mirror that does not follow testing, the list of packages has expired.
# shellcheck disable=SC2154 # cache, mirror and root: of ./check
debian_root() { # suite file packages [source-package]: nothing if the file exists
  local suite=$1 file=$2 packages=$3 source=${4:-} more=()
  [ ! -f "$file" ] || return 0
  echo "making the root file system $(basename "$file" .tar)"
  [ -z "$source" ] || more=(--customize-hook='chroot "$1" sh -c "mkdir /usr/src/source && cd /usr/src/source &&
    apt-get source -qq -o APT::Sandbox::User=root --download-only '"$source"'"')
  mmdebstrap -q --format=tar --variant=minbase --include="$packages" \
    --aptopt='Acquire::Check-Valid-Until "false"' ${more:+"${more[@]}"} "$suite" "$file.new" \
    ${mirror:+"$mirror"} ${source:+"deb-src $mirror $suite main"}
  mv "$file.new" "$file"
}

fedora_python() { # folder archive: Debian's interpreter, in lib64, with the modules of CPython's own sources
  local folder=$1
  cp "$root/deploy/packages/lib64-python.c" "$folder/usr/src/source/"
  chroot "$folder" /usr/bin/env -i PATH=/usr/bin LIBRARY_PATH=/usr/lib64 /bin/bash -euc '
    cd /usr/src/source
    mkdir -p tree/usr/bin tree/usr/lib64 tree/usr/lib/python3.13/site-packages
    gcc -O2 -I/usr/include/python3.13 -o tree/usr/bin/python3.13 lib64-python.c -lpython3.13
    ln -s python3.13 tree/usr/bin/python3
    tar -xf python3.13_*.orig.tar.?z
    cp -a Python-3.13.*/Lib tree/usr/lib64/python3.13
    rm -rf tree/usr/lib64/python3.13/test
    cp -a /usr/lib/python3.13/{_sysconfigdata_*.py,lib-dynload} tree/usr/lib64/python3.13/
    tar -C tree -cf python.tar .'
  mv "$folder/usr/src/source/python.tar" "$2"
}

fedora_roots() { # file-without-compiler file-with-gcc
  local folder=$work/fedora-like-made source=$cache/fedora-like-debian kind
  [ ! -f "$1" ] || [ ! -f "$2" ] || return 0
  debian_root "$stable" "$source.tar" libpython3.13
  debian_root "$stable" "$source-gcc.tar" gcc,libc6-dev,libpython3.13-dev,xz-utils python3.13
  for kind in -gcc ''; do
    mkdir -p "$folder$kind"
    tar -C "$folder$kind" -xf "$source$kind.tar" --exclude='./dev/*'
    "$root/deploy/packages/fedora-layout" "$folder$kind"
    [ -z "$kind" ] || fedora_python "$folder$kind" "$work/python.tar"
    rm -rf "$folder$kind"/usr/lib/python3* "$folder$kind/usr/src/source"
    tar -C "$folder$kind" --keep-directory-symlink -xf "$work/python.tar"
  done
  tar -C "$folder-gcc" -cf "$2.new" . && mv "$2.new" "$2"
  tar -C "$folder" -cf "$1.new" . && mv "$1.new" "$1"
}
