#include "streams/group.h"

#include "exchange/ring.h"
#include "exchange/wait.h"
#include "nodes/capture.h"
#include "streams/stream_ring.h"

CUresult tsr_group_begin(struct tsr_context *context, uint32_t multiprocessors, uint32_t *group) {
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  pthread_mutex_lock(&context->group_lock);
  for (uint32_t i = 1; i < TSR_GROUPS; i++) {
    struct tsr_group *one = &context->groups[i];
    if (one->used) continue;
    *one = (struct tsr_group){.used = true, .multiprocessors = multiprocessors};
    *group = i;
    result = CUDA_SUCCESS;
    break;
  }
  pthread_mutex_unlock(&context->group_lock);
  return result;
}

bool tsr_group_has(const struct tsr_context *context, uint32_t stream, uint32_t group) {
  return group == 0 || atomic_load(&context->group[stream]) == group;
}

bool tsr_group_break_captures(struct tsr_context *context, uint32_t group) {
  bool found = false;
  for (uint32_t i = 0; i < TESSERA_MAX_STREAMS; i++) {
    if (!tsr_group_has(context, i, group) || !tsr_captures(context, i)) continue;
    tsr_capture_break(context, i, CUDA_SUCCESS);
    found = true;
  }
  return found;
}

void tsr_group_end(struct tsr_context *context, uint32_t group) {
  tsr_group_break_captures(context, group);
  pthread_mutex_lock(&context->group_lock);
  for (uint32_t i = 0; i < TESSERA_MAX_STREAMS; i++)
    if (atomic_load(&context->group[i]) == group) atomic_store(&context->group[i], 0);
  struct tsr_group *ended = &context->groups[group];
  if (ended->has_ring) tsr_stream_ring_close(context, ended->ring);
  *ended = (struct tsr_group){0};
  pthread_mutex_unlock(&context->group_lock);
}

CUresult tsr_group_pass(struct tsr_context *context, uint32_t stream, uint32_t group) {
  const struct tsr_group *waits = &context->groups[group];
  if (!waits->has_ring || tsr_reached(context, waits->ring, waits->barrier)) return CUDA_SUCCESS;
  const tessera_wait wait = {.stream = waits->ring, .value = waits->barrier};
  return tsr_ring_wait(context, stream, &wait, 1);
}

CUresult tsr_group_join(struct tsr_context *context, uint32_t stream, uint32_t group) {
  pthread_mutex_lock(&context->group_lock);
  atomic_store(&context->group[stream], (uint8_t)group);
  CUresult result = tsr_group_pass(context, stream, 0);
  if (result == CUDA_SUCCESS && group) result = tsr_group_pass(context, stream, group);
  pthread_mutex_unlock(&context->group_lock);
  return result;
}

CUresult tsr_group_ring(struct tsr_context *context, uint32_t group, uint32_t *ring) {
  struct tsr_group *one = &context->groups[group];
  CUresult result = CUDA_SUCCESS;
  if (!one->has_ring) result = tsr_stream_ring_open(context, false, &one->ring);
  if (result == CUDA_SUCCESS) one->has_ring = true;
  *ring = one->ring;
  return result;
}
