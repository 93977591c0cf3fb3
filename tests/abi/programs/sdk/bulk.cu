// Bulk copies that complete on a barrier, by addresses and by a tensor map; latches and semaphores.
#include <cuda.h>
#include <cuda/barrier>
#include <cuda/latch>
#include <cuda/semaphore>
#include <new>
#include <utility>

#include "check.h"

namespace {
using Barrier = cuda::barrier<cuda::thread_scope_block>;
using Latch = cuda::latch<cuda::thread_scope_block>;
using Semaphore = cuda::counting_semaphore<cuda::thread_scope_device, 2>;
namespace bulk = cuda::device::experimental;
constexpr int kWidth = 64, kHeight = 32, kLeft = 16, kTop = 8, kBox = 16, kRows = 8;

__global__ void change(const __grid_constant__ CUtensorMap map, int* line) {
  __shared__ alignas(128) int box[kRows][kBox];
  __shared__ alignas(16) int part[64];
  __shared__ Barrier bar;
  if (threadIdx.x == 0) {
    init(&bar, blockDim.x);
    bulk::fence_proxy_async_shared_cta();
  }
  __syncthreads();
  Barrier::arrival_token token;
  if (threadIdx.x == 0) {
    bulk::cp_async_bulk_tensor_2d_global_to_shared(&box, &map, kLeft, kTop, bar);
    token = cuda::device::barrier_arrive_tx(bar, 1, sizeof box);
  } else {
    token = bar.arrive();
  }
  bar.wait(std::move(token));
  box[threadIdx.x / kBox][threadIdx.x % kBox] *= 2;
  if (threadIdx.x == 0) {
    cuda::device::barrier_expect_tx(bar, sizeof part);
    cuda::device::memcpy_async_tx(part, line, cuda::aligned_size_t<16>(sizeof part), bar);
  }
  bar.arrive_and_wait();
  if (threadIdx.x < 64) part[threadIdx.x]++;
  bulk::fence_proxy_async_shared_cta();
  __syncthreads();
  if (threadIdx.x == 0) {
    bulk::cp_async_bulk_tensor_2d_shared_to_global(&map, kLeft, kTop, &box);
    bulk::cp_async_bulk_shared_to_global(line, part, sizeof part);
    bulk::cp_async_bulk_commit_group();
    bulk::cp_async_bulk_wait_group_read<0>();
  }
}

/* Threads of the last three warps write what those of the first one read. */
__global__ void pass(int* values, Semaphore* semaphore) {
  __shared__ alignas(8) char memory[sizeof(Latch)];
  Latch* latch = (Latch*)memory;
  if (threadIdx.x == 0) {
    new (latch) Latch(96);
    new (semaphore) Semaphore(1);
  }
  __syncthreads();
  if (threadIdx.x >= 32) {
    values[threadIdx.x] = threadIdx.x;
    latch->count_down();
  } else {
    latch->wait();
    values[threadIdx.x] = values[threadIdx.x + 64];
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) {
    semaphore->acquire();
    volatile int* sum = values + 128;
    *sum = *sum + 1;
    semaphore->release();
  }
}

int check_copies() {
  Device<int> field(generate<int>(kWidth * kHeight, [](size_t i) { return i; }));
  Device<int> line(generate<int>(64, [](size_t i) { return i; }));
  void* encode;
  cudaDriverEntryPointQueryResult found;
  CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000,
                                         cudaEnableDefault, &found));
  const cuuint64_t sizes[] = {kWidth, kHeight}, strides[] = {kWidth * sizeof(int)};
  const cuuint32_t box[] = {kBox, kRows}, steps[] = {1, 1};
  CUtensorMap map;
  if (((decltype(&cuTensorMapEncodeTiled))encode)(
          &map, CU_TENSOR_MAP_DATA_TYPE_INT32, 2, (int*)field, sizes, strides, box, steps,
          CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
          CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)) {
    return 1;
  }
  change<<<1, kBox * kRows>>>(map, line);
  const auto expected = [](size_t i) {
    const int x = i % kWidth, y = i / kWidth;
    const bool in = x >= kLeft && x < kLeft + kBox && y >= kTop && y < kTop + kRows;
    return (int)i * (in ? 2 : 1);
  };
  return wrong(field.read(), expected) + wrong(line.read(), [](size_t i) { return i + 1; });
}
int check_latches() {
  Device<int> values(129);
  Device<char> semaphore(sizeof(Semaphore));
  pass<<<1, 128>>>(values, (Semaphore*)(char*)semaphore);
  return wrong(values.read(), [](size_t i) { return i == 128 ? 4 : i < 32 ? i + 64 : i; });
}
}  // namespace

int main() {
  return report("bulk copies", check_copies()) + report("latches", check_latches());
}
