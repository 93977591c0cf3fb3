// Atomic additions of vectors, with results that are used and results that are not.
#include "check.h"

namespace {
__global__ void add(float4* fours, float2* twos) {
  atomicAdd(fours, make_float4(1, 2, 3, 4));
  atomicAdd_block(fours + 1, make_float4(1, 2, 3, 4));
  atomicAdd_system(twos, make_float2(0.5f, 1.5f));
  const float2 before = atomicAdd(twos + 1, make_float2(1, 2));
  atomicAdd(twos + 2, before);
}
}  // namespace

int main() {
  Device<float4> fours(2);
  Device<float2> twos(3);
  add<<<1, 32>>>(fours, twos);
  int failures = 0;
  for (const float4 sum : fours.read())
    failures += wrong<float>({sum.x, sum.y, sum.z, sum.w}, [](int i) { return 32 * (i + 1); });
  // The third has the sums of what the second held before each addition.
  const float2 expected[] = {{16, 48}, {32, 64}, {496, 992}};
  const auto found = twos.read();
  for (int i = 0; i < 3; i++) failures += found[i].x != expected[i].x || found[i].y != expected[i].y;
  return report("vector atomics", failures);
}
