/* Settings of GPU core dumps. None is ever written: what would enable them is refused, and all
 * other settings are kept and returned. */
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "api.h"
#include "base/refuse.h"

enum { TEXT_BYTES = 1024 }; /* of a file's name, with its NUL */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool triggers_host = true, lightweight;
static unsigned int generation_flags;
static char file[TEXT_BYTES], pipe_name[TEXT_BYTES]; /* empty: the driver's own name */
static bool disabled;

/* Return where a setting is kept, and its size; NULL: there is no such setting. */
static void *find(CUcoredumpSettings attrib, size_t *bytes) {
  *bytes = sizeof(bool);
  switch (attrib) {
    case CU_COREDUMP_ENABLE_ON_EXCEPTION:
    case CU_COREDUMP_ENABLE_USER_TRIGGER:
      return &disabled;
    case CU_COREDUMP_TRIGGER_HOST:
      return &triggers_host;
    case CU_COREDUMP_LIGHTWEIGHT:
      return &lightweight;
    case CU_COREDUMP_GENERATION_FLAGS:
      *bytes = sizeof generation_flags;
      return &generation_flags;
    case CU_COREDUMP_FILE:
      *bytes = TEXT_BYTES;
      return file;
    case CU_COREDUMP_PIPE:
      *bytes = TEXT_BYTES;
      return pipe_name;
    default:
      return NULL;
  }
}

/* Without `value`, only the size is returned. */
CUresult tsr_cuCoredumpGetAttributeGlobal(CUcoredumpSettings attrib, void *value, size_t *size) {
  size_t bytes;
  const void *kept = find(attrib, &bytes);
  if (!kept || !size) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = CUDA_SUCCESS;
  pthread_mutex_lock(&lock);
  if (bytes == TEXT_BYTES) bytes = strlen(kept) + 1;
  if (value && *size < bytes) result = CUDA_ERROR_INVALID_VALUE;
  if (value && result == CUDA_SUCCESS) memcpy(value, kept, bytes);
  if (result == CUDA_SUCCESS) *size = bytes;
  pthread_mutex_unlock(&lock);
  return result;
}

static bool enables(const void *kept, const void *value, size_t size) {
  return kept == &disabled && size == sizeof(bool) && *(const unsigned char *)value;
}

CUresult tsr_cuCoredumpSetAttributeGlobal(CUcoredumpSettings attrib, void *value, size_t *size) {
  size_t bytes;
  void *kept = find(attrib, &bytes);
  if (!kept || !value || !size) return CUDA_ERROR_INVALID_VALUE;
  const size_t given = *size;
  if (enables(kept, value, given)) TSR_REFUSE("cuCoredumpSetAttributeGlobal that enables core dumps");
  if (kept == &disabled) return given == bytes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  const bool fits = bytes == TEXT_BYTES ? given > 0 && given <= bytes : given == bytes;
  if (!fits) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&lock);
  memcpy(kept, value, given);
  if (bytes == TEXT_BYTES) ((char *)kept)[given < bytes ? given : bytes - 1] = 0;
  pthread_mutex_unlock(&lock);
  return CUDA_SUCCESS;
}
