#include "memory/peers.h"

#include <stdlib.h>

#include "base/aperture.h"
#include "base/device.h"
#include "exchange/health.h"
#include "exchange/request.h"
#include "exchange/share.h"
#include "exchange/wait.h"
#include "log.h"

/* A chunk that the accessor's worker has mapped. */
struct opening {
  struct opening *next;
  struct tsr_context *accessor;
  uint64_t offset, bytes;
  uint32_t kind;
  struct tsr_context *owner;
};

/* Lock order: pool lock, tsr_context_lock > peer lock > context.request_lock > memory lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tsr_context *contexts[TESSERA_MAX_CONTEXTS]; /* by index; NULL: none */
static uint64_t enabled[TESSERA_MAX_CONTEXTS]; /* by accessor: the owners' indices, as bits */
static struct opening *openings;
static _Atomic uint32_t context_count;

_Static_assert(TESSERA_MAX_CONTEXTS <= 64, "the owners of an accessor fit into a word");

bool tsr_peers_reach(const struct tsr_device *accessor, const struct tsr_device *owner) {
  return accessor != owner && !accessor->slice.info.is_mig && !owner->slice.info.is_mig;
}

static bool is_open(uint64_t pool, const struct tsr_device *device) {
  const struct tsr_pool *found = TSR_FIND(tsr_pool, TSR_POOL, pool);
  return found && atomic_load(&found->peers) >> (device - tsr_devices) & 1;
}

static bool wants(const struct tsr_context *accessor, const struct tsr_chunk *chunk) {
  const struct tsr_context *owner = chunk->context;
  if (!owner || contexts[owner->index] != owner ||
      !tsr_peers_reach(accessor->device, owner->device) || chunk->sort.use == TSR_USE_OPENED)
    return false;
  if (chunk->kind == TESSERA_CHUNK_KIND_HOST) return true;
  if (chunk->sort.peers >> (accessor->device - tsr_devices) & 1) return true;
  if (chunk->sort.pool) return is_open(chunk->sort.pool, accessor->device);
  return chunk->sort.use == TSR_USE_DEVICE && enabled[accessor->index] >> owner->index & 1;
}

static struct opening **find(const struct tsr_context *accessor, uint64_t offset) {
  struct opening **link = &openings;
  while (*link && ((*link)->accessor != accessor || (*link)->offset != offset))
    link = &(*link)->next;
  return link;
}

/* Map a chunk in the accessor's worker, which obtains it from the owner's by a key that is valid
 * meanwhile only. */
static CUresult map(struct tsr_context *accessor, const struct tsr_chunk *chunk) {
  struct opening *made = malloc(sizeof *made);
  if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
  tessera_share_open wanted = {.offset = chunk->offset};
  CUresult result = tsr_share_name(chunk->context, chunk->offset, chunk->bytes, chunk->kind,
                                   &wanted.memory);
  if (result == CUDA_SUCCESS) {
    struct tsr_reply reply;
    result = tsr_ask(accessor, TESSERA_MESSAGE_TYPE_SHARE_OPEN, &wanted, sizeof wanted, -1, &reply);
    tsr_reply_close(&reply);
    tsr_share_forget(chunk->context, &wanted.memory);
  }
  if (result != CUDA_SUCCESS) {
    free(made);
    return result;
  }
  *made = (struct opening){.next = openings,
                           .accessor = accessor,
                           .offset = chunk->offset,
                           .bytes = chunk->bytes,
                           .kind = chunk->kind,
                           .owner = chunk->context};
  openings = made;
  return CUDA_SUCCESS;
}

/* Remove a chunk from the accessor's worker; work that may use it ends first. */
static void unmap(struct opening **link) {
  struct opening *one = *link;
  *link = one->next;
  struct tsr_reply reply;
  const tessera_chunk wanted = {.offset = one->offset, .bytes = one->bytes, .kind = one->kind};
  tsr_wait_all(one->accessor);
  tsr_ask(one->accessor, TESSERA_MESSAGE_TYPE_CHUNK_FREE, &wanted, sizeof wanted, -1, &reply);
  tsr_reply_close(&reply);
  free(one);
}

/* Bring what a context has mapped in line with what it may access. Host memory that cannot be
 * mapped is no error, because the program may never access it from there. */
static CUresult adjust(struct tsr_context *accessor, const struct tsr_chunk *chunk) {
  struct opening **link = find(accessor, chunk->offset);
  const bool wanted = wants(accessor, chunk);
  if (!wanted && *link) unmap(link);
  if (!wanted || *link) return CUDA_SUCCESS;
  /* A failed context accesses nothing, and must not let others' allocations fail. */
  if (tsr_context_error(accessor) != CUDA_SUCCESS) return CUDA_SUCCESS;
  const CUresult result = map(accessor, chunk);
  if (result == CUDA_SUCCESS) return result;
  tsr_log("memory at 0x%llx cannot be mapped on another GPU: kernels there cannot access it",
          (unsigned long long)(tsr_aperture_base + chunk->offset));
  return chunk->kind == TESSERA_CHUNK_KIND_HOST ? CUDA_SUCCESS : result;
}

/* Adjust all chunks for one context, or for all (NULL). */
static CUresult adjust_all(struct tsr_context *only) {
  struct tsr_chunk *copies = NULL;
  const int64_t count = tsr_chunks_copy(&copies);
  CUresult result = count < 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
  for (size_t i = 0; i < TESSERA_MAX_CONTEXTS; i++)
    for (int64_t n = 0; n < count && result == CUDA_SUCCESS; n++)
      if (contexts[i] && (!only || contexts[i] == only))
        result = adjust(contexts[i], &copies[n]);
  free(copies);
  return result;
}

void tsr_peers_enter(struct tsr_context *context) {
  pthread_mutex_lock(&lock);
  contexts[context->index] = context;
  enabled[context->index] = 0;
  if (atomic_fetch_add(&context_count, 1)) adjust_all(context);
  pthread_mutex_unlock(&lock);
}

void tsr_peers_drop(struct tsr_context *context) {
  pthread_mutex_lock(&lock);
  if (contexts[context->index] == context) {
    contexts[context->index] = NULL;
    atomic_fetch_sub(&context_count, 1);
    for (size_t i = 0; i < TESSERA_MAX_CONTEXTS; i++) enabled[i] &= ~(UINT64_C(1) << context->index);
  }
  for (struct opening **link = &openings; *link;) {
    struct opening *one = *link;
    if (one->accessor == context) { /* its worker has ended */
      *link = one->next;
      free(one);
    } else if (one->owner == context) {
      unmap(link);
    } else {
      link = &one->next;
    }
  }
  pthread_mutex_unlock(&lock);
}

CUresult tsr_peers_enable(struct tsr_context *accessor, struct tsr_context *owner) {
  CUresult result = CUDA_ERROR_INVALID_CONTEXT;
  pthread_mutex_lock(&lock);
  if (contexts[accessor->index] == accessor && contexts[owner->index] == owner) {
    const uint64_t bit = UINT64_C(1) << owner->index;
    result = CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    if (!(enabled[accessor->index] & bit)) {
      enabled[accessor->index] |= bit;
      result = adjust_all(accessor);
      if (result != CUDA_SUCCESS) {
        enabled[accessor->index] &= ~bit;
        adjust_all(accessor);
      }
    }
  }
  pthread_mutex_unlock(&lock);
  return result;
}

CUresult tsr_peers_disable(struct tsr_context *accessor, struct tsr_context *owner) {
  CUresult result = CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
  pthread_mutex_lock(&lock);
  const uint64_t bit = UINT64_C(1) << owner->index;
  if (contexts[accessor->index] == accessor && enabled[accessor->index] & bit) {
    enabled[accessor->index] &= ~bit;
    result = adjust_all(accessor);
  }
  pthread_mutex_unlock(&lock);
  return result;
}

CUresult tsr_peers_revise(void) {
  pthread_mutex_lock(&lock);
  const CUresult result = adjust_all(NULL);
  pthread_mutex_unlock(&lock);
  return result;
}

CUresult tsr_peers_open(const struct tsr_chunk *chunk) {
  if (atomic_load(&context_count) < 2) return CUDA_SUCCESS;
  CUresult result = CUDA_SUCCESS;
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < TESSERA_MAX_CONTEXTS && result == CUDA_SUCCESS; i++)
    if (contexts[i]) result = adjust(contexts[i], chunk);
  pthread_mutex_unlock(&lock);
  return result;
}

void tsr_peers_close(uint64_t offset) {
  pthread_mutex_lock(&lock);
  for (struct opening **link = &openings; *link;)
    if ((*link)->offset == offset)
      unmap(link);
    else
      link = &(*link)->next;
  pthread_mutex_unlock(&lock);
}
