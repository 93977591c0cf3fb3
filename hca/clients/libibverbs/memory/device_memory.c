#include "memory/device_memory.h"

#include <errno.h>
#include <stdlib.h>

#include "command/command.h"
#include "log.h"
#include "memory/remap.h"

/* Whether libcuda may have placed device or pinned memory at an address. libcuda reserves the
 * whole aperture, so in a program that uses it no other mapping is there. */
static bool may_be_device(uint64_t from, uint64_t bytes) {
  static const uint64_t bases[] = TESSERA_APERTURE_BASES;
  for (unsigned i = 0; i < sizeof bases / sizeof *bases; i++) {
    const uint64_t offset = from - bases[i];
    if (offset < TESSERA_APERTURE_BYTES && bytes <= TESSERA_APERTURE_BYTES - offset) return true;
  }
  return false;
}

/* hcad requests the memory from gpud, because it cannot trust this process to state which memory
 * it owns. */
static int borrow(struct tsr_context *context, uint16_t type, const void *wanted,
                  uint32_t wanted_bytes, uint64_t bytes, tessera_hca_mr_create *region,
                  struct tsr_segment **used) {
  struct tsr_segment *segment = calloc(1, sizeof *segment);
  if (!segment) return ENOMEM;
  tessera_hca_device_segment made = {0};
  const int error = tsr_ask(context, type, wanted, wanted_bytes, &made, sizeof made, NULL);
  if (error != 0) {
    free(segment);
    return error;
  }
  /* No pages of this process were replaced, so the segment has no address and is in no list. */
  *segment = (struct tsr_segment){.bytes = bytes, .handle = made.handle, .regions = 1};
  used[0] = segment;
  region->piece_count = 1;
  region->pieces[0] =
      (tessera_hca_piece){.segment = made.handle, .offset = made.offset, .bytes = bytes};
  return 0;
}

int tsr_find_memory(struct tsr_context *context, void *address, size_t bytes,
                    tessera_hca_mr_create *region, struct tsr_segment **used) {
  const uint64_t from = (uintptr_t)address;
  if (!may_be_device(from, bytes)) return tsr_pin(context, address, bytes, region, used);
  const tessera_hca_segment_device wanted = {.address = from, .bytes = bytes};
  const int error = borrow(context, TESSERA_HCA_MESSAGE_SEGMENT_DEVICE, &wanted, sizeof wanted,
                           bytes, region, used);
  if (error != EFAULT && error != ENODEV) return error;
  /* A program without a GPU may have mapped its own memory there. */
  const int pinned = tsr_pin(context, address, bytes, region, used);
  if (pinned == 0 || pinned == ENOMEM) return pinned;
  tsr_log("ibv_reg_mr: %s", error == ENODEV
                                ? "no GPU daemon provides device memory to this HCA"
                                : "no CUDA context of this process owns all of that device memory");
  return EFAULT;
}

int tsr_find_shared(struct tsr_context *context, const tessera_hca_segment_shared *wanted,
                    tessera_hca_mr_create *region, struct tsr_segment **used) {
  return borrow(context, TESSERA_HCA_MESSAGE_SEGMENT_SHARED, wanted, sizeof *wanted, wanted->bytes,
                region, used);
}
