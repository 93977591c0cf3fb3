/* For programs that name this header: device functions are in cuda_runtime.h. */
#pragma once
#include "cuda_runtime.h"
