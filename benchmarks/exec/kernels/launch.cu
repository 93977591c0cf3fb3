/* An almost empty kernel, to measure the cost of a launch. */
#include "cuda.h"

extern "C" __global__ void launch(int *out) { out[blockIdx.x] = 1; }
