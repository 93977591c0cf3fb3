/* For programs that name this header: atomics are in cuda_runtime.h. */
#pragma once
#include "cuda_runtime.h"
