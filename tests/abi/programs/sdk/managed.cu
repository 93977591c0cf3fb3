// Managed variables of several kinds, which host and kernels access by name and by pointer.
#include <cstdio>

#include "managed.h"

__device__ int plain = 5;

__global__ void change(int add) {
  values[threadIdx.x] = values[threadIdx.x] * 2 + add;
  if (threadIdx.x == 0) {
    counter += pair.second + plain;
    table<short>[3] = (short)counter;
    common++;
  }
}
__global__ void increment(int *p) { ++*p; }

int *choose(int which, int *other) {
  if (which > 1) return &pair.first;
  return which ? &pair.second : (other ? other : &counter);
}
float *place(bool make) { return make ? new float(9) : &values[5]; }

int main() {
  int failures = 0;
  auto expect = [&](const char *what, double found, double right) {
    if (found != right) printf("%s: %g, not %g\n", what, found, right), failures++;
  };
  expect("initial value", counter, 3);
  expect("initial member", pair.second, 2);
  for (int i = 0; i < 64; i++) values[i] = i;
  pair.second = 4;
  change<<<1, 64>>>(5);
  increment<<<1, 1>>>(&pair.first);
  increment<<<1, 1>>>(choose(0, nullptr));
  if (cudaDeviceSynchronize() != cudaSuccess) return 2;
  for (int i = 0; i < 64; i++) expect("values", values[i], 2 * i + 5);
  expect("counter", counter, 13);
  expect("first", *choose(2, nullptr), 2);
  expect("second", *choose(1, nullptr), 4);
  expect("address", *place(false), 15);
  expect("common", (double)common, (double)((1ull << 40) + 1));
  expect("table", table<short>[3], 12);
  float copied[4] = {1, 2, 3, 4};
  expect("copy to", cudaMemcpyToSymbol(values, copied, sizeof copied, 8), cudaSuccess);
  expect("values[3]", values[3], 2);
  expect("copy from", cudaMemcpyFromSymbol(copied, values, sizeof copied, 4), cudaSuccess);
  expect("copied", copied[2], 2);
  void *address = nullptr;
  size_t size = 0;
  expect("symbol's address", cudaGetSymbolAddress(&address, counter), cudaSuccess);
  expect("its address", address == &counter, true);
  expect("symbol's size", cudaGetSymbolSize(&size, values), cudaSuccess);
  expect("its size", (double)size, 64 * sizeof(float));
  expect("too long", cudaMemcpyToSymbol(counter, copied, 2 * sizeof counter), cudaErrorInvalidValue);
  expect("no symbol", cudaGetSymbolSize(&size, copied), cudaErrorInvalidSymbol);
  cudaPointerAttributes attributes;
  cudaPointerGetAttributes(&attributes, values);
  expect("kind of memory", attributes.type, cudaMemoryTypeManaged);
  printf("failures %d\n", failures);
  return failures != 0;
}
