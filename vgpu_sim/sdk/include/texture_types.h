/* The types of textures are part of the runtime's header. */
#pragma once
#include "cuda_runtime.h"
