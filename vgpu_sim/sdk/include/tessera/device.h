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

/* Declared by clang's headers and defined in none of them. */
static __inline__ __attribute__((always_inline, device)) double nan(const char *tag) {
  return __nv_nan((const signed char *)tag);
}
static __inline__ __attribute__((always_inline, device)) float nanf(const char *tag) {
  return __nv_nanf((const signed char *)tag);
}

#include "atomics.h"
#include "atomics/of_16_bytes.h"
#include "atomics/builtins.h"
#include "dpx.h"
#include "overloads/floats.h"
#include "memory.h"
#include "system_calls.h"
#include "device_runtime.h"
#include "variables.h"
#include "warp_reductions.h"

typedef unsigned int cuuint32_t; /* a name that clang's next header uses */
#include <__clang_cuda_cmath.h>
/* The next header defines vectors' atomic functions, and newer versions loads and stores, too. */
#define atomicAdd tessera_unused_atomicAdd
#define atomicAdd_block tessera_unused_atomicAdd_block
#define atomicAdd_system tessera_unused_atomicAdd_system
#define __ldca tessera_unused__ldca
#define __ldcg tessera_unused__ldcg
#define __ldcs tessera_unused__ldcs
#define __ldcv tessera_unused__ldcv
#define __ldlu tessera_unused__ldlu
#define __stcg tessera_unused__stcg
#define __stcs tessera_unused__stcs
#define __stwb tessera_unused__stwb
#define __stwt tessera_unused__stwt
#define __reduce_add_sync tessera_unused__reduce_add_sync
#define __reduce_min_sync tessera_unused__reduce_min_sync
#define __reduce_max_sync tessera_unused__reduce_max_sync
#define __reduce_and_sync tessera_unused__reduce_and_sync
#define __reduce_or_sync tessera_unused__reduce_or_sync
#define __reduce_xor_sync tessera_unused__reduce_xor_sync
/* From compute capability 7.0 on, there are no shuffles without a mask (below). */
#define __shfl tessera_unused__shfl
#define __shfl_up tessera_unused__shfl_up
#define __shfl_down tessera_unused__shfl_down
#define __shfl_xor tessera_unused__shfl_xor
#include <__clang_cuda_intrinsics.h>
#undef atomicAdd
#undef atomicAdd_block
#undef atomicAdd_system
#undef __ldca
#undef __ldcg
#undef __ldcs
#undef __ldcv
#undef __ldlu
#undef __stcg
#undef __stcs
#undef __stwb
#undef __stwt
#undef __reduce_add_sync
#undef __reduce_min_sync
#undef __reduce_max_sync
#undef __reduce_and_sync
#undef __reduce_or_sync
#undef __reduce_xor_sync
#undef __shfl
#undef __shfl_up
#undef __shfl_down
#undef __shfl_xor
#include "removed.h"
#include <__clang_cuda_complex_builtins.h>

#endif
