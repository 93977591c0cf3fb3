"""Unmodified CUDA programs through ``tessera run``: results, devices, errors, statuses."""

import json
import subprocess
import sys
import textwrap

import pytest
from c_programs import linked_with_lcuda
from tessera_run import EXAMPLES, LIBCUDA, environment, run, tessera

VECTORADD = (sys.executable, str(EXAMPLES / "vectoradd.py"))


def python(code: str) -> tuple[str, str, str]:
    return sys.executable, "-c", textwrap.dedent(code)


def test_vectoradd_verifies_every_element(place):
    done = run(place, *VECTORADD, "--n", "4097")
    assert done.returncode == 0, done.stderr
    assert "NVIDIA H100 80GB HBM3 MIG 1g.10gb, compute capability 9.0" in done.stdout
    assert "SMs      16" in done.stdout
    assert "4097 results verified" in done.stdout


def test_a_c_program_that_links_lcuda(place):
    program = str(linked_with_lcuda(place, "linked"))
    done = run(place, program, str(EXAMPLES / "vecadd.ptx"))
    assert done.returncode == 0, done.stderr
    assert "10000 results, wrong 0" in done.stdout


def test_the_program_computes_what_its_ptx_says(place):
    ptx = (EXAMPLES / "vecadd.ptx").read_text()
    assert ptx.count("add.f32") == 1
    (place / "changed.ptx").write_text(ptx.replace("add.f32", "sub.f32"))
    changed = ("--n", "512", "--ptx", str(place / "changed.ptx"))
    assert run(place, *VECTORADD, *changed, "--expect", "sub").returncode == 0
    wrong = run(place, *VECTORADD, *changed, "--expect", "add")
    assert wrong.returncode == 1
    assert "results WRONG" in wrong.stderr


@pytest.mark.parametrize(
    ("board", "profile", "options", "line"),
    [
        ("a30", "2g.12gb", (), "NVIDIA A30 MIG 2g.12gb, compute capability 8.0"),
        ("b200", "1g.23gb", ("--cc", "9.0"), "NVIDIA B200 MIG 1g.23gb, compute capability 9.0"),
    ],
)
def test_other_boards_and_a_lowered_capability(place, board, profile, options, line):
    done = run(
        place,
        *python("""
            from cuda.core import Device
            device = Device(0)
            device.set_current()
            major, minor = device.compute_capability
            print(f"{device.name}, compute capability {major}.{minor}")
        """),
        board=board,
        profile=profile,
        options=options,
    )
    assert done.returncode == 0, done.stderr
    assert line in done.stdout


def test_several_slices_lie_on_as_few_gpus_as_hold_them(place):
    done = run(place, *tessera("smi", "-L"), profile="3g.40gb", options=("--count", "3"))
    starts = [line.split("(UUID")[0].strip() for line in done.stdout.splitlines()]
    gpu = "GPU {}: NVIDIA H100 80GB HBM3"
    mig = "MIG 3g.40gb     Device  {}:"
    assert starts == [gpu.format(0), mig.format(0), mig.format(1), gpu.format(1), mig.format(0)]


def test_out_of_memory_is_2_and_the_slice_goes_on(place):
    done = run(
        place,
        *python("""
            from cuda.bindings import driver
            driver.cuInit(0)
            _, context = driver.cuDevicePrimaryCtxRetain(0)
            driver.cuCtxSetCurrent(context)
            status, _ = driver.cuMemAlloc(1 << 40)
            print(int(status))
            status, address = driver.cuMemAlloc(1 << 20)
            print(int(status), int(driver.cuMemFree(address)[0]))
            status, _ = driver.cuMemAlloc(200 << 20)
            print(int(status))
            status, free, total = driver.cuMemGetInfo()
            print(int(status), free <= 128 << 20, total)
        """),
        options=("--budget", str(128 << 20)),
    )
    assert done.stdout.split("\n")[:4] == ["2", "0 0", "2", f"0 True {9984 << 20}"], done.stderr
    assert "tessera: out of memory: 200 MiB asked for" in done.stderr


def test_eight_contexts_on_one_slice_compute_at_the_same_time(place):
    script = textwrap.dedent(f"""
        for i in 1 2 3 4 5 6 7 8; do
            {sys.executable} {EXAMPLES}/vectoradd.py --n 2048 --seed $i > out.$i 2>&1 &
        done
        wait
    """)
    done = run(place, "sh", "-c", script, timeout_s=120)
    assert done.returncode == 0, done.stderr
    outputs = [(place / f"out.{number}").read_text() for number in range(1, 9)]
    assert all("2048 results verified" in output for output in outputs), outputs
    assert len({output.split("first")[1].splitlines()[0] for output in outputs}) == 8


def test_a_faulting_kernel_takes_its_own_context_alone(place):
    code = f"""
        import sys
        import numpy as np
        from cuda.bindings import driver

        def check(result):
            assert result[0] == 0, result
            return result[1:] if len(result) > 2 else result[-1]

        driver.cuInit(0)
        context = check(driver.cuDevicePrimaryCtxRetain(0))
        driver.cuCtxSetCurrent(context)
        module = check(driver.cuModuleLoadData(open({str(EXAMPLES / "vecadd.ptx")!r}, "rb").read() + b"\\0"))
        kernel = check(driver.cuModuleGetFunction(module, b"vecadd"))
        good = check(driver.cuMemAlloc(4096))
        values = [np.array([int(a)], np.uint64) for a in (good, good, int(sys.argv[1], 0))]
        values.append(np.array([256], np.int32))
        pointers = np.array([v.ctypes.data for v in values], np.uint64)
        check(driver.cuLaunchKernel(kernel, 1, 1, 1, 256, 1, 1, 0, 0, pointers.ctypes.data, 0))
        print(int(driver.cuCtxSynchronize()[0]))
        print(int(driver.cuCtxSynchronize()[0]))
    """
    (place / "fault.py").write_text(textwrap.dedent(code))
    neighbour = f"{sys.executable} {EXAMPLES}/vectoradd.py --n 2048 --seconds 2 > words"
    faulty = f"{sys.executable} fault.py"
    script = f"{neighbour} & {faulty} 0; {faulty} 0x7fff00000000; wait $!"
    done = run(place, "sh", "-c", script, timeout_s=120)
    assert done.returncode == 0, done.stderr
    assert "2048 results verified" in (place / "words").read_text()
    assert done.stdout.splitlines() == ["700"] * 4
    assert done.stderr.count("kernel vecadd") == 2  # which kernel, told once by each program


def test_no_slice_is_no_device(place):
    code = python("""
        import ctypes
        libcuda = ctypes.CDLL("libcuda.so.1")
        print(libcuda.cuInit(0))
    """)
    outside = environment(place) | {
        "LD_LIBRARY_PATH": str(LIBCUDA.parent),
        "TESSERA_SLICES_DIR": str(place / "nowhere"),
    }
    done = subprocess.run(code, env=outside, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "100", done.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--n", "0"), "--n must be"),
        (("--n", "2147483648"), "--n must be"),
        (("--hold", "-1"), "cannot be negative"),
        (("--ptx", "nowhere.ptx"), "there is no file nowhere.ptx"),
        ((), "no usable CUDA device"),
    ],
)
def test_the_example_says_in_a_line_why_it_cannot_run(place, arguments, complaint):
    outside = environment(place) | {
        "LD_LIBRARY_PATH": str(LIBCUDA.parent),
        "TESSERA_SLICES_DIR": str(place / "nowhere"),
    }
    command = (*VECTORADD, *arguments)
    done = subprocess.run(command, env=outside, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert complaint in done.stderr.splitlines()[-1]


def test_smi_inside_a_run_shows_the_slice_and_its_programs(place):
    listing = run(place, *tessera("smi", "-L"))
    lines = listing.stdout.splitlines()
    assert lines[0].startswith("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-")
    assert lines[1].startswith("  MIG 1g.10gb     Device  0: (UUID: MIG-")
    script = f"""
        {sys.executable} {EXAMPLES}/vectoradd.py --n 512 --hold 600 > words &
        until grep -qs verified words; do sleep 0.1; done
        {" ".join(map(repr, tessera("smi", "--json")))}
        kill $!
    """
    document = json.loads(run(place, "sh", "-c", script).stdout)
    (device,) = document["gpus"][0]["devices"]
    (process,) = device["processes"]
    assert process["pid"] > 0
    assert process["name"] == sys.executable
    assert process["memory_bytes"] == device["memory_used_bytes"] > 0
    assert document["isolation_enforced"] is False
    assert "standalone" in document["isolation_reason"]
