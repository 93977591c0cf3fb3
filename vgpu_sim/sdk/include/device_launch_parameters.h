/* For programs that name this header: threadIdx and its like are built in. */
#pragma once
#include "cuda_runtime.h"
