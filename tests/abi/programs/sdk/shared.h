// Device code of another file: the linker of device code joins them.
#pragma once
extern __device__ int counter;
__device__ int shared_function(int x);
