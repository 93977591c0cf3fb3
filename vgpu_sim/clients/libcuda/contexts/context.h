/* Contexts: each has one worker. */
#ifndef TSR_CONTEXT_H
#define TSR_CONTEXT_H

#include "exchange/health.h"
#include "base/objects.h"

extern pthread_mutex_t tsr_context_lock;

/* Create a context on a device and return its handle. */
CUresult tsr_context_open(struct tsr_device *device, uint32_t flags, uint32_t api_version,
                          bool primary, uint64_t *handle);

/* Return the handle of a device's primary context. If it is closed, open it without a user: it is
 * closed when its last user releases it and its memory of cuMemCreate is freed, or by a reset. */
CUresult tsr_primary_open(struct tsr_device *device, uint64_t *handle);

/* Return the device's open context, or NULL: the primary one, otherwise the newest. */
struct tsr_context *tsr_context_on(const struct tsr_device *device);

/* Destroy a context: its queued work is done first; its memory and its handles become invalid. */
CUresult tsr_context_close(uint64_t handle);

/* Return the calling thread's context; NULL with the reason in `why`, which may be a sticky
 * error. */
struct tsr_context *tsr_context_current(CUresult *why);

/* The same without checking for errors. */
struct tsr_context *tsr_context_current_any(CUresult *why);

/* Call back with every live context, under tsr_context_lock. */
void tsr_contexts_close_sockets(void);

/* Remove a handle from the top of this thread's context stack, if it is there. */
void tsr_stack_drop(uint64_t handle);
CUresult tsr_stack_push(uint64_t handle);
/* Return the green context that is current to the calling thread, or NULL. */
struct tsr_green *tsr_green_current(void);

#define TSR_CURRENT(context)                                      \
  CUresult tsr_why;                                               \
  struct tsr_context *const context = tsr_context_current(&tsr_why); \
  if (__builtin_expect(!(context), 0)) return tsr_why

#endif
