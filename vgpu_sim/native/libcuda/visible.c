/* Which slices are this process's devices: CUDA_VISIBLE_DEVICES. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "config.h"
#include "device.h"
#include "log.h"
#include "patience.h"
#include "request.h"
#include "slices.h"

struct tsr_device tsr_devices[TESSERA_MAX_GPUS];
int tsr_device_count;

static const char *without_prefix(const char *uuid) {
  if (strncasecmp(uuid, "MIG-", 4) == 0 || strncasecmp(uuid, "GPU-", 4) == 0) return uuid + 4;
  return uuid;
}

/* One entry of CUDA_VISIBLE_DEVICES: an index or (the beginning of) a UUID. -1: matches nothing,
 * or more than one slice. */
static int match(const char *entry, size_t length, const struct tsr_slice_name *names, int count) {
  char wanted[TSR_SLICE_NAME_BYTES];
  if (length == 0 || length >= sizeof wanted) return -1;
  memcpy(wanted, entry, length);
  wanted[length] = 0;
  if (strspn(wanted, "0123456789") == length && length <= 3) {
    int index = 0;
    for (const char *digit = wanted; *digit; digit++) index = 10 * index + (*digit - '0');
    return index < count ? index : -1;
  }
  const char *prefix = without_prefix(wanted);
  int found = -1;
  for (int i = 0; i < count; i++) {
    if (!*prefix || strncasecmp(without_prefix(names[i].text), prefix, strlen(prefix)) != 0)
      continue;
    if (found >= 0) return -1;
    found = i;
  }
  return found;
}

/* Says once which entry ends the list; not of -1, by which programs mean "none". */
static void tell_of_entry(const char *entry, size_t length, int count) {
  static bool said;
  if (said || count == 0 || (length == 2 && strncmp(entry, "-1", 2) == 0)) return;
  said = true;
  tsr_log("CUDA_VISIBLE_DEVICES: \"%.*s\" names none of the %d slices here, or more than one; as in"
          " CUDA no entry after it counts either",
          (int)length, entry, count);
}

/* Fills `order` with the visible slices. As in CUDA an entry that names nothing ends the list. */
static int choose(const struct tsr_slice_name *names, int count, int *order) {
  const char *visible = getenv("CUDA_VISIBLE_DEVICES"); /* empty means none */
  int chosen = 0;
  if (!visible) {
    for (; chosen < count; chosen++) order[chosen] = chosen;
    return chosen;
  }
  while (*visible && chosen < TSR_MAX_SLICES) {
    visible += strspn(visible, " ");
    const size_t length = strcspn(visible, ", ");
    const int index = match(visible, length, names, count);
    if (index < 0) {
      tell_of_entry(visible, length, count);
      break;
    }
    for (int i = 0; i < chosen; i++)
      if (order[i] == index) return 0; /* listed twice: CUDA shows nothing */
    order[chosen++] = index;
    visible += length;
    visible += strspn(visible, " ");
    if (*visible == ',') visible++;
  }
  return chosen;
}

/* What one look at the slices found besides devices. */
struct look {
  char absent[TSR_SOCKET_PATH_BYTES]; /* a socket at which nobody listens; empty: none */
  bool hung_up;                       /* gpud ended while it was being asked */
};

static CUresult query(const struct tsr_slice_name *name, struct tsr_device *device,
                      struct look *look) {
  int32_t status = 0;
  memset(device, 0, sizeof *device);
  const enum tsr_outcome outcome = tsr_slice_query(name, &device->slice, &status);
  if (outcome == TSR_ABSENT)
    memcpy(look->absent, device->slice.socket_path, sizeof look->absent);
  look->hung_up |= outcome == TSR_CLOSED;
  device->window = (uint64_t)device->slice.info.gpu_index << TESSERA_GPU_WINDOW_BITS;
  return tsr_hello_result(outcome, status);
}

static CUresult discover_once(const struct tsr_slice_name *names, int count, struct look *look) {
  int order[TSR_MAX_SLICES];
  const int visible = choose(names, count, order);
  CUresult why = CUDA_ERROR_NO_DEVICE;
  tsr_device_count = 0;
  for (int i = 0; i < visible && tsr_device_count < (int)TESSERA_MAX_GPUS; i++) {
    struct tsr_device *device = &tsr_devices[tsr_device_count];
    const CUresult result = query(&names[order[i]], device, look);
    if (result != CUDA_SUCCESS) {
      if (result != CUDA_ERROR_NO_DEVICE) why = result;
      continue; /* a slice whose gpud is gone hides no other one */
    }
    /* As in CUDA a process that sees a MIG device sees no other device. */
    if (device->slice.info.is_mig && tsr_device_count > 0) continue;
    tsr_device_count++;
    if (device->slice.info.is_mig) break;
  }
  return tsr_device_count ? CUDA_SUCCESS : why;
}

static void tell_that_there_is_none(void) {
  static bool said;
  if (!said)
    tsr_log("no slice in %s: start the program with `tessera run`, or ask for a slice in the"
            " pod's limits",
            tsr_config()->slices_dir);
  said = true;
}

CUresult tsr_devices_discover(void) {
  struct tsr_slice_name *names = calloc(TSR_MAX_SLICES, sizeof *names);
  if (!names) return CUDA_ERROR_OUT_OF_MEMORY;
  struct tsr_patience patience = {0};
  CUresult result;
  bool again, asked_again = false;
  do {
    struct look look = {0};
    const int count = tsr_slices_list(names);
    result = discover_once(names, count, &look);
    if (count == 0) tell_that_there_is_none();
    again = false;
    if (result != CUDA_ERROR_NO_DEVICE) break;
    if (look.absent[0])
      again = tsr_patience_wait(&patience, look.absent);
    else if (look.hung_up && !asked_again)
      again = asked_again = true;
  } while (again);
  free(names);
  return result;
}
