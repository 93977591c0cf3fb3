// Helpers of the programs: arrays on host and device, and comparison with values of the CPU.
#pragma once
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include <cuda_runtime.h>

#define CHECK(call)                                                               \
    do {                                                                          \
        cudaError_t status_ = (call);                                             \
        if (status_ != cudaSuccess) {                                             \
            std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,    \
                         cudaGetErrorName(status_));                              \
            std::exit(1);                                                         \
        }                                                                         \
    } while (0)

// An array on the host and its copy on the device.
template <class T> struct Array {
    std::vector<T> host;
    T *device = nullptr;

    explicit Array(size_t count, T value = T()) : host(count, value) {
        CHECK(cudaMalloc(reinterpret_cast<void **>(&device), count * sizeof(T)));
        upload();
    }
    Array(const Array &) = delete;
    ~Array() { cudaFree(device); }
    void upload() {
        CHECK(cudaMemcpy(device, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
    }
    void download() {
        CHECK(cudaMemcpy(host.data(), device, host.size() * sizeof(T), cudaMemcpyDeviceToHost));
    }
    T &operator[](size_t index) { return host[index]; }
    size_t size() const { return host.size(); }
};

// Fill an array with equally distributed values, the same in each run, and upload it.
template <class T> void fill(Array<T> &array, double low, double high, unsigned seed = 1) {
    std::mt19937 generator(seed);
    std::uniform_real_distribution<double> values(low, high);
    for (T &value : array.host) value = static_cast<T>(values(generator));
    array.upload();
}

inline long compared, different;

// Compare a value with the expected one: relative to it, and absolutely below 1.
inline void expect(const char *what, double found, double expected, double tolerance = 0) {
    compared++;
    double scale = std::fmax(1.0, std::fabs(expected));
    if (std::fabs(found - expected) <= tolerance * scale) return;
    if (different++ < 5) std::fprintf(stderr, "%s: %.9g, not %.9g\n", what, found, expected);
}

// Wait for the kernel that was launched last.
inline void finish() {
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
}

// Print how many values were compared; return the program's exit status.
inline int report() {
    std::printf("%ld values compared, %ld different\n", compared, different);
    return compared == 0 || different != 0;
}
