"""Connections to sockets whose paths just fit an address, and to longer ones (with sanitizers)."""

import os
import socket
import subprocess
from pathlib import Path

import pytest

from vgpu_sim.native import build, catalogue

PROGRAM = """
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport.h"

int main(int count, char **paths) {
  for (int i = 1; i < count; i++) {
    char *path = strdup(paths[i]); /* so that an access beyond its end is detected */
    printf("%d\\n", tsr_connect(path) >= 0);
    free(path);
  }
  return 0;
}
"""
FITS = 107
"""Length of the longest path that fits in ``sun_path`` with its terminator."""


@pytest.fixture(scope="module")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("transport")
    (directory / "connect.c").write_text(PROGRAM)
    command = [build.compiler(), "-std=c11", "-O1", "-g", *build.SANITIZERS["address"]]
    command += [f"-I{catalogue.COMMON}", f"-I{catalogue.INCLUDE}", str(directory / "connect.c")]
    command += [str(catalogue.COMMON / "transport.c"), "-o", str(directory / "connect")]
    subprocess.run(command, check=True)
    return directory / "connect"


@pytest.mark.parametrize("length", [FITS - 1, FITS, FITS + 1, 400])
def test_a_socket_is_reached_whatever_the_length_of_its_path(
    connect: Path, tmp_path: Path, length: int
) -> None:
    full, rest = divmod(length - len(f"{tmp_path}/s"), 200)
    folder = tmp_path.joinpath(*["x" * 199] * full, "x" * (rest - 1))
    folder.mkdir(parents=True)
    path = folder / "s"
    assert len(str(path)) == length
    directory = os.open(folder, os.O_PATH)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(f"/proc/self/fd/{directory}/s")
        os.close(directory)
        listener.listen()
        command = [connect, str(path), f"{folder}/t"]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            env={"ASAN_OPTIONS": "detect_leaks=0"},
        )
    assert (done.stdout, done.stderr) == ("1\n0\n", "")
