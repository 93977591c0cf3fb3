/* Contexts: one worker each. */
#ifndef TSR_CONTEXT_H
#define TSR_CONTEXT_H

#include "exchange/health.h"
#include "base/objects.h"

extern pthread_mutex_t tsr_context_lock;

/* Opens a context on a device and returns its handle. */
CUresult tsr_context_open(struct tsr_device *device, uint32_t flags, uint32_t api_version,
                          bool primary, uint64_t *handle);

/* Ends a context: its queued work is done first, its memory and its handles die with it. */
CUresult tsr_context_close(uint64_t handle);

/* The calling thread's context; NULL with a reason in `why`, a sticky error included. */
struct tsr_context *tsr_context_current(CUresult *why);

/* The same without looking at errors. */
struct tsr_context *tsr_context_current_any(CUresult *why);

/* Calls back with every live context, under tsr_context_lock. */
void tsr_contexts_close_sockets(void);

/* Removes a handle from the top of this thread's stack when it is there. */
void tsr_stack_drop(uint64_t handle);
CUresult tsr_stack_push(uint64_t handle);

#define TSR_CURRENT(context)                                      \
  CUresult tsr_why;                                               \
  struct tsr_context *const context = tsr_context_current(&tsr_why); \
  if (__builtin_expect(!(context), 0)) return tsr_why

#endif
