/* Settings of GPU core dumps, of the process and of contexts. No dump is ever written: what would
 * enable one is refused, and all other settings are kept and returned. */
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "api.h"
#include "base/refuse.h"
#include "contexts/context.h"

enum { TEXT_BYTES = 1024 }; /* of a file's name, with its NUL */

struct settings {
  uint64_t context; /* that has them; 0: none */
  bool disabled, triggers_host, lightweight;
  unsigned int generation_flags;
  char file[TEXT_BYTES], pipe[TEXT_BYTES]; /* empty: the driver's own name */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct settings global = {.triggers_host = true}, local[TESSERA_MAX_CONTEXTS];

/* Return a context's settings; until it sets one, they are the global ones. */
static struct settings *settings_of(const struct tsr_context *context) {
  struct settings *its = &local[context->index];
  const uint64_t handle = tsr_object_handle(TSR_CONTEXT, context);
  if (its->context != handle) {
    *its = global;
    its->context = handle;
  }
  return its;
}

/* Return where a setting is kept, and its size; NULL: there is no such setting. */
static void *find(struct settings *its, CUcoredumpSettings attrib, size_t *bytes) {
  *bytes = sizeof(bool);
  switch (attrib) {
    case CU_COREDUMP_ENABLE_ON_EXCEPTION:
    case CU_COREDUMP_ENABLE_USER_TRIGGER:
      return &its->disabled;
    case CU_COREDUMP_TRIGGER_HOST:
      return &its->triggers_host;
    case CU_COREDUMP_LIGHTWEIGHT:
      return &its->lightweight;
    case CU_COREDUMP_GENERATION_FLAGS:
      *bytes = sizeof its->generation_flags;
      return &its->generation_flags;
    case CU_COREDUMP_FILE:
      *bytes = TEXT_BYTES;
      return its->file;
    case CU_COREDUMP_PIPE:
      *bytes = TEXT_BYTES;
      return its->pipe;
    default:
      return NULL;
  }
}

/* Without `value`, only the size is returned. */
static CUresult get(struct settings *its, CUcoredumpSettings attrib, void *value, size_t *size) {
  size_t bytes;
  const void *kept = find(its, attrib, &bytes);
  if (!kept || !size) return CUDA_ERROR_INVALID_VALUE;
  if (bytes == TEXT_BYTES) bytes = strlen(kept) + 1;
  if (value && *size < bytes) return CUDA_ERROR_INVALID_VALUE;
  if (value) memcpy(value, kept, bytes);
  *size = bytes;
  return CUDA_SUCCESS;
}

static CUresult set(struct settings *its, CUcoredumpSettings attrib, const void *value,
                    const size_t *size) {
  size_t bytes;
  void *kept = find(its, attrib, &bytes);
  if (!kept || !value || !size) return CUDA_ERROR_INVALID_VALUE;
  const size_t given = *size;
  const bool fits = bytes == TEXT_BYTES ? given > 0 && given <= bytes : given == bytes;
  if (!fits) return CUDA_ERROR_INVALID_VALUE;
  if (kept == &its->disabled && *(const unsigned char *)value)
    TSR_REFUSE("cuCoredumpSetAttribute that enables core dumps");
  memcpy(kept, value, given);
  if (bytes == TEXT_BYTES) ((char *)kept)[given < bytes ? given : bytes - 1] = 0;
  return CUDA_SUCCESS;
}

/* Evaluate a call with the lock. */
#define LOCKED(call)             \
  pthread_mutex_lock(&lock);     \
  const CUresult result = (call); \
  pthread_mutex_unlock(&lock);   \
  return result

CUresult tsr_cuCoredumpGetAttributeGlobal(CUcoredumpSettings attrib, void *value, size_t *size) {
  LOCKED(get(&global, attrib, value, size));
}

CUresult tsr_cuCoredumpSetAttributeGlobal(CUcoredumpSettings attrib, void *value, size_t *size) {
  LOCKED(set(&global, attrib, value, size));
}

CUresult tsr_cuCoredumpGetAttribute(CUcoredumpSettings attrib, void *value, size_t *size) {
  TSR_CURRENT(context);
  LOCKED(get(settings_of(context), attrib, value, size));
}

CUresult tsr_cuCoredumpSetAttribute(CUcoredumpSettings attrib, void *value, size_t *size) {
  TSR_CURRENT(context);
  LOCKED(set(settings_of(context), attrib, value, size));
}
