"""libibverbs registers a program's own memory: its content is kept, and some memory is refused."""

import errno

from support.programs.verbs_tools import run_verbs_program


def test_registered_memory_keeps_its_content_and_comes_back(tmp_path):
    done = run_verbs_program(tmp_path, "hca_memory")
    no, bad, gone = errno.EOPNOTSUPP, errno.EINVAL, errno.EFAULT
    assert done.stdout.splitlines() == [
        "heap 1 1 1 same 1 distinct 1",
        "dereg 0 0 same 1 shared 0",
        "overlap 1 1 middle",
        "dereg 0 shared 0",
        "remapped 1 fresh dereg 0 fresh",
        "partly 1 1 1 shared 3 dereg 0 first fresh last shared 0",
        f"aperture 1 1 dereg 0 nothing there {gone}",
        f"shared {no} hole {gone} stack 0 code {no} nothing {bad} huge {no}",
        f"fork {bad} shared 0",
        "close 0 0",
    ]
    assert done.returncode == 0
    for text in (
        "shared memory cannot be registered",
        "access flags 0x81 are not supported",
        "provides",
    ):
        assert text in done.stderr


def test_after_ibv_fork_init_a_child_has_no_registered_pages(tmp_path):
    done = run_verbs_program(tmp_path, "hca_fork", "init")
    assert done.stdout.splitlines() == [
        "init 0 again 0",
        "is 1 late 0",
        f"registered {errno.EFAULT} beside 0 parent mine",
        "after 0 mine",
    ]


def test_without_it_a_child_shares_them_and_it_is_too_late_to_ask(tmp_path):
    done = run_verbs_program(tmp_path, "hca_fork")
    assert done.stdout.splitlines() == [
        f"is 0 late {errno.EINVAL}",
        "registered 0 beside 0 parent mine",
        "after 0 mine",
    ]
