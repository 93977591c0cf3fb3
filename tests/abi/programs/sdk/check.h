// What the checks share: device arrays, comparison, and one line for each check.
#pragma once
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                     \
  do {                                                                                  \
    const cudaError_t error_ = (call);                                                  \
    if (error_ != cudaSuccess) {                                                        \
      printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error_)); \
      exit(1);                                                                          \
    }                                                                                   \
  } while (0)

template <class T>
class Device {
  T* memory = nullptr;
  size_t count;

 public:
  explicit Device(size_t n) : count(n) {
    CHECK(cudaMalloc(&memory, n * sizeof(T)));
    CHECK(cudaMemset(memory, 0, n * sizeof(T)));
  }
  explicit Device(const std::vector<T>& v) : Device(v.size()) {
    CHECK(cudaMemcpy(memory, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  Device(const Device&) = delete;
  ~Device() { cudaFree(memory); }
  operator T*() { return memory; }
  std::vector<T> read() {
    CHECK(cudaGetLastError());
    std::vector<T> v(count);
    CHECK(cudaMemcpy(v.data(), memory, count * sizeof(T), cudaMemcpyDeviceToHost));
    return v;
  }
};

inline float random_float() { return rand() / (float)RAND_MAX; }
template <class T, class F>
std::vector<T> generate(size_t n, F make) {
  std::vector<T> v(n);
  for (size_t i = 0; i < n; i++) v[i] = (T)make(i);
  return v;
}
/* Returns the number of elements that differ by more than `tolerance` (relative above 1). */
template <class T, class F>
int wrong(const std::vector<T>& got, F expected, double tolerance = 0.0) {
  int count = 0;
  for (size_t i = 0; i < got.size(); i++) {
    const double want = (double)expected(i), have = (double)got[i];
    if (!(std::fabs(want - have) <= tolerance * std::fmax(1.0, std::fabs(want)))) {
      if (!count) printf("  [%zu] %.9g instead of %.9g\n", i, have, want);
      count++;
    }
  }
  return count;
}
inline int report(const char* name, int failures) {
  printf("%s: %s\n", name, failures ? "WRONG" : "right");
  return failures != 0;
}
