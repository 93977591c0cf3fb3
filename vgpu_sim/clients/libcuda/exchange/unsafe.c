#include "exchange/unsafe.h"

static __thread CUstreamCaptureMode thread_mode; /* GLOBAL */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tsr_capture_mark *marks; /* guarded by the lock */
static _Atomic uint32_t count;         /* of the marks that are not RELAXED */

static bool forbids(const struct tsr_capture_mark *mark) {
  if (mark->mode == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
  return pthread_equal(mark->thread, pthread_self()) ||
         (mark->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
          thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
}

void tsr_capture_mark_add(struct tsr_capture_mark *mark) {
  pthread_mutex_lock(&lock);
  mark->next = marks;
  marks = mark;
  if (mark->mode != CU_STREAM_CAPTURE_MODE_RELAXED) atomic_fetch_add(&count, 1);
  pthread_mutex_unlock(&lock);
}

void tsr_capture_mark_remove(struct tsr_capture_mark *mark) {
  pthread_mutex_lock(&lock);
  struct tsr_capture_mark **link = &marks;
  while (*link != mark) link = &(*link)->next;
  *link = mark->next;
  if (mark->mode != CU_STREAM_CAPTURE_MODE_RELAXED) atomic_fetch_sub(&count, 1);
  pthread_mutex_unlock(&lock);
}

CUstreamCaptureMode tsr_capture_mode_set(CUstreamCaptureMode mode) {
  const CUstreamCaptureMode before = thread_mode;
  thread_mode = mode;
  return before;
}

CUresult tsr_capture_check_unsafe(void) {
  if (__builtin_expect(atomic_load_explicit(&count, memory_order_relaxed) == 0, 1))
    return CUDA_SUCCESS;
  if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  CUresult result = CUDA_SUCCESS;
  pthread_mutex_lock(&lock);
  for (struct tsr_capture_mark *mark = marks; mark; mark = mark->next) {
    if (!forbids(mark)) continue;
    atomic_store(&mark->broken, true);
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  pthread_mutex_unlock(&lock);
  return result;
}
