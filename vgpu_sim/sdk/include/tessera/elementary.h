/* The functions of libdevice, which NVIDIA ships as bitcode, written anew. The header's parts name
 * no error bounds: tests/abi/runtime measures them against those that CUDA documents. */
#ifndef TESSERA_ELEMENTARY_H
#define TESSERA_ELEMENTARY_H

#include "intrinsics.h"

#include "double_double.h"

#include "rounding.h"

#include "exponential.h"
#include "roots.h"
#include "special.h"
#include "trigonometric.h"

#include "single.h"

#endif
