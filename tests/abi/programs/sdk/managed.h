// Managed variables in a header: the source itself does not contain the word.
#pragma once

struct Pair { int first, second; };

__managed__ float values[64];
static __device__ __managed__ int counter = 3;
namespace { __managed__ Pair pair = {1, 2}; }
inline __managed__ unsigned long long common = 1ull << 40;
template <typename T> __managed__ T table[4];
