"""A program of another owner, which computes as long as its standard input is open.

It prints ``right N`` at the end, for N rounds of right numbers, or ``wrong`` and the reason.
"""

import ctypes
import select
import sys

IMAGE = b"""
.version 7.0
.target sm_80
.address_size 64
.visible .entry count(.param .u64 data, .param .u32 start)
{
  .reg .b32 %r<4>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [data]; ld.param.u32 %r1, [start];
  mov.u32 %r2, %tid.x; mul.wide.u32 %rd2, %r2, 4; add.u64 %rd3, %rd1, %rd2;
  mad.lo.u32 %r3, %r2, 3, %r1; st.global.u32 [%rd3], %r3;
  ret;
}
"""
THREADS = 256


def main() -> None:
    """Compute until the input ends."""
    cuda = ctypes.CDLL("libcuda.so.1")

    def call(name: str, *arguments: object) -> None:
        status = getattr(cuda, name)(*arguments)
        if status:
            print(f"wrong: {name} returned {status}", flush=True)
            raise SystemExit(1)

    context, module, function = (ctypes.c_uint64() for _ in range(3))
    memory = ctypes.c_uint64()
    found = (ctypes.c_uint32 * THREADS)()
    call("cuInit", 0)
    call("cuCtxCreate_v2", ctypes.byref(context), 0, 0)
    call("cuModuleLoadData", ctypes.byref(module), IMAGE)
    call("cuModuleGetFunction", ctypes.byref(function), module, b"count")
    call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(4 * THREADS))
    print("ready", flush=True)
    rounds = 0
    while not select.select([sys.stdin], [], [], 0.02)[0]:
        start = ctypes.c_uint32(rounds * 7)
        given = (ctypes.c_void_p * 2)(ctypes.addressof(memory), ctypes.addressof(start))
        call("cuLaunchKernel", function, 1, 1, 1, THREADS, 1, 1, 0, None, given, None)
        call("cuMemcpyDtoH_v2", found, memory, ctypes.c_size_t(4 * THREADS))
        if list(found) != [3 * i + rounds * 7 for i in range(THREADS)]:
            print(f"wrong: numbers of round {rounds}", flush=True)
            raise SystemExit(1)
        rounds += 1
    print(f"right {rounds}", flush=True)


if __name__ == "__main__":
    main()
