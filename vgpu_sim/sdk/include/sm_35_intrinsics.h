/* For programs that name this header: intrinsics are in cuda_runtime.h. */
#pragma once
#include "cuda_runtime.h"
