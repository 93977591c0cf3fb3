/* Everything that device code has without an include: built-in variables and functions. Those of
 * clang's own headers are used where they need no file of NVIDIA; the functions of NVIDIA's
 * libdevice that these call (__nv_sinf ...) are ours. */
#ifndef TESSERA_DEVICE_H
#define TESSERA_DEVICE_H

#include <__clang_cuda_builtin_vars.h>

#include "missing.h" /* before the declarations */

#include <__clang_cuda_libdevice_declares.h>

#include "elementary.h"
#include "intrinsics.h"

#include <__clang_cuda_device_functions.h>
#include <__clang_cuda_math.h>

#include "atomics.h"
#include "memory.h"
#include "system_calls.h"
#include "variables.h"

typedef unsigned int cuuint32_t; /* a name that clang's next header uses */
#include <__clang_cuda_cmath.h>
#include <__clang_cuda_intrinsics.h>
#include <__clang_cuda_complex_builtins.h>

#endif
