/* NVRTC's public types: names and values. */
#pragma once

#include <stddef.h>

typedef enum {
#define RESULT(value, name) name = value,
#include "results.def"
#undef RESULT
} nvrtcResult;

typedef struct _nvrtcProgram *nvrtcProgram;
