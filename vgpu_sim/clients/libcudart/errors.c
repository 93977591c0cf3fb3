/* The last error of each thread, and the texts of errors. */
#include "errors.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "api.h"
#include "status_table.h"

static __thread cudaError_t last_error;
/* How often the process has reset a device, and how often when the thread last looked. */
static atomic_uint resets;
static __thread unsigned resets_seen;

static const struct tsr_status *find(cudaError_t error) {
  size_t low = 0, high = tsr_status_count;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if ((cudaError_t)tsr_statuses[middle].code == error) return &tsr_statuses[middle];
    if ((cudaError_t)tsr_statuses[middle].code < error)
      low = middle + 1;
    else
      high = middle;
  }
  return NULL;
}

/* Whether an error has ended the context, so that every later call in this process returns it. */
static bool ends_context(cudaError_t error) {
  switch (error) {
    case 214: /* uncorrectable ECC error */
    case 220: /* uncorrectable NVLink error */
    case 226: /* contained exception */
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case 715: /* illegal instruction */
    case 716: /* misaligned address */
    case 717: /* invalid address space */
    case 718: /* invalid program counter */
    case cudaErrorLaunchFailure:
    case 721: /* tensor memory not freed */
      return true;
    default:
      return false;
  }
}

/* Drop the error of a context that any thread has reset since. */
static void look_for_reset(void) {
  const unsigned now = atomic_load_explicit(&resets, memory_order_acquire);
  if (now == resets_seen) return;
  resets_seen = now;
  if (ends_context(last_error)) last_error = cudaSuccess;
}

cudaError_t tsr_record(cudaError_t status) {
  if (__builtin_expect(status == cudaSuccess, 1)) return status;
  if (status == cudaErrorNotReady) return status; /* by definition not an error */
  const cudaError_t error = find(status) ? status : cudaErrorUnknown;
  look_for_reset();
  if (!ends_context(last_error)) last_error = error;
  return error;
}

void tsr_forget_errors(void) {
  last_error = cudaSuccess;
  atomic_fetch_add_explicit(&resets, 1, memory_order_acq_rel);
}

cudaError_t tsr_cudaPeekAtLastError(void) {
  look_for_reset();
  return last_error;
}

cudaError_t tsr_cudaGetLastError(void) {
  look_for_reset();
  const cudaError_t error = last_error;
  if (!ends_context(error)) last_error = cudaSuccess;
  return error;
}

const char *tsr_cudaGetErrorName(cudaError_t error) {
  const struct tsr_status *found = find(error);
  return found ? found->name : "unrecognized error code";
}

const char *tsr_cudaGetErrorString(cudaError_t error) {
  const struct tsr_status *found = find(error);
  return found ? found->text : "unrecognized error code";
}
