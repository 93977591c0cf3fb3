/* For programs that name this header: cudaCreateChannelDesc is in cuda_runtime.h. */
#pragma once
#include "cuda_runtime.h"
