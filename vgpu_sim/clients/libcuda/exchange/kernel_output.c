#include "exchange/kernel_output.h"

#include <stdlib.h>
#include <string.h>

#include "exchange/device_print.h"
#include "log.h"

/* Return the size of the record at `read`; 0: no complete record is there. If the FIFO is
 * inconsistent, because a kernel has overwritten it, its content is discarded. */
static uint32_t next_record(struct tsr_system_area *area, uint32_t *kind) {
  uint64_t *const words = (uint64_t *)area->alias;
  const uint64_t written = __atomic_load_n(&words[TSR_AREA_WRITTEN], __ATOMIC_ACQUIRE);
  if (written == area->read) return 0;
  const uint64_t place = area->read % area->fifo_bytes;
  uint32_t *const record = (uint32_t *)(area->alias + TSR_AREA_HEAD_BYTES + place);
  *kind = __atomic_load_n(&record[1], __ATOMIC_ACQUIRE);
  if (*kind == 0) return 0;
  const uint32_t bytes = record[0];
  if (written - area->read <= area->fifo_bytes && bytes >= 8 && bytes % 8 == 0 &&
      bytes <= area->fifo_bytes - place)
    return bytes;
  tsr_log("output of kernels is lost: a kernel has overwritten it");
  memset(area->alias + TSR_AREA_HEAD_BYTES, 0, area->fifo_bytes);
  area->read = 0;
  __atomic_store_n(&words[TSR_AREA_READ], 0, __ATOMIC_RELAXED);
  __atomic_store_n(&words[TSR_AREA_WRITTEN], 0, __ATOMIC_RELEASE);
  return 0;
}

static bool print_next(struct tsr_system_area *area) {
  uint32_t kind;
  const uint32_t bytes = next_record(area, &kind);
  if (bytes == 0) return false;
  uint8_t *const record = area->alias + TSR_AREA_HEAD_BYTES + area->read % area->fifo_bytes;
  /* A copy, because kernels may keep writing. */
  uint8_t *const own = malloc(bytes);
  if (own) {
    memcpy(own, record, bytes);
    if (kind != TSR_PRINT_PADDING) tsr_device_print(kind, own, bytes);
    free(own);
  }
  memset(record, 0, bytes);
  area->read += bytes;
  __atomic_store_n((uint64_t *)area->alias + TSR_AREA_READ, area->read, __ATOMIC_RELEASE);
  return true;
}

void tsr_kernel_output_print(struct tsr_context *context) {
  struct tsr_system_area *area = &context->system_area;
  if (!__atomic_load_n(&area->alias, __ATOMIC_RELAXED)) return;
  pthread_mutex_lock(&area->reading);
  /* Print at most the capacity of the FIFO, so that running kernels cannot keep a waiting thread
   * here forever. */
  const uint64_t end = area->read + area->fifo_bytes;
  bool any = false;
  while (area->alias && area->read < end && print_next(area)) any = true;
  if (any) tsr_device_print_flush();
  pthread_mutex_unlock(&area->reading);
}

void tsr_kernel_output_drop(struct tsr_context *context) {
  struct tsr_system_area *area = &context->system_area;
  pthread_mutex_lock(&area->reading);
  area->alias = NULL;
  pthread_mutex_unlock(&area->reading);
}
