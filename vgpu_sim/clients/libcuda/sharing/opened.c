#include "sharing/opened.h"

#include <stdlib.h>
#include <string.h>

#include "base/aperture.h"
#include "exchange/request.h"
#include "exchange/wait.h"

struct opened {
  struct opened *next;
  struct tsr_context *context;
  uint64_t context_id, address, pool, count;
  tessera_shared_memory name;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* outermost but for the context lock */
static struct opened *all;

/* Forget what contexts that have ended had opened. */
static void prune(void) {
  for (struct opened **link = &all; *link;) {
    struct opened *one = *link;
    if (tsr_object_lives(one->context) && one->context->id == one->context_id) {
      link = &one->next;
      continue;
    }
    *link = one->next;
    free(one);
  }
}

static enum tsr_use use_of(const tessera_shared_memory *name) {
  return name->purpose == TSR_SHARE_EVENTS ? TSR_USE_EVENTS : TSR_USE_OPENED;
}

static CUresult map(struct opened *made) {
  const tessera_shared_memory *name = &made->name;
  const struct tsr_chunk wanted = {
      .context = made->context,
      .kind = name->kind,
      .bytes = (uint64_t)name->chunk_units * TESSERA_CHUNK_ALIGN_BYTES,
      .start = name->offset,
      .requested_bytes = name->bytes,
      .shared = name,
      .sort = {.use = use_of(name), .pool = made->pool}};
  if (name->kind > TESSERA_CHUNK_KIND_HOST || !name->bytes || name->offset >= wanted.bytes ||
      name->bytes > wanted.bytes - name->offset)
    return CUDA_ERROR_INVALID_HANDLE;
  uint64_t offset;
  const CUresult result = tsr_chunk_create(&wanted, &offset);
  if (result == CUDA_SUCCESS) made->address = tsr_aperture_base + offset + name->offset;
  return result;
}

static CUresult add(struct tsr_context *context, const tessera_shared_memory *name, uint64_t pool,
                    uint64_t *address) {
  prune();
  struct opened *one = all;
  while (one && (one->context != context || one->pool != pool ||
                 memcmp(&one->name, name, sizeof *name) != 0))
    one = one->next;
  CUresult result = CUDA_SUCCESS;
  if (!one) {
    one = malloc(sizeof *one);
    if (!one) return CUDA_ERROR_OUT_OF_MEMORY;
    *one = (struct opened){
        .next = all, .context = context, .context_id = context->id, .pool = pool, .name = *name};
    result = map(one);
    if (result == CUDA_SUCCESS)
      all = one;
    else
      free(one);
  }
  if (result == CUDA_SUCCESS) {
    one->count++;
    *address = one->address;
  }
  return result;
}

CUresult tsr_opened_add(struct tsr_context *context, const tessera_shared_memory *name,
                        uint64_t pool, uint64_t *address) {
  pthread_mutex_lock(&lock);
  const CUresult result = add(context, name, pool, address);
  pthread_mutex_unlock(&lock);
  return result;
}

CUresult tsr_opened_verify(struct tsr_context *context, const tessera_shared_memory *name) {
  struct tsr_reply reply;
  const tessera_share_open wanted = {.memory = *name};
  if (name->chunk_units) return CUDA_ERROR_INVALID_HANDLE;
  const CUresult result =
      tsr_ask(context, TESSERA_MESSAGE_TYPE_SHARE_OPEN, &wanted, sizeof wanted, -1, &reply);
  tsr_reply_close(&reply);
  return result;
}

static CUresult close_one(uint64_t address, uint64_t pool, bool waits) {
  struct opened *last = NULL;
  pthread_mutex_lock(&lock);
  prune();
  struct opened **link = &all;
  while (*link && ((*link)->address != address || (*link)->pool != pool)) link = &(*link)->next;
  const bool found = *link != NULL;
  if (found && --(*link)->count == 0) {
    last = *link;
    *link = last->next;
  }
  pthread_mutex_unlock(&lock);
  if (!found) return CUDA_ERROR_INVALID_VALUE;
  if (!last) return CUDA_SUCCESS;
  const CUresult waited = waits ? tsr_wait_all(last->context) : CUDA_SUCCESS;
  const enum tsr_use use = use_of(&last->name);
  free(last);
  return waited == CUDA_SUCCESS ? tsr_memory_release(address, use) : waited;
}

CUresult tsr_opened_close(uint64_t address, uint64_t pool) {
  return close_one(address, pool, true);
}

CUresult tsr_opened_release(uint64_t address, uint64_t pool) {
  return close_one(address, pool, false);
}
