/* Selection of the slices that become this process's devices: CUDA_VISIBLE_DEVICES. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "config.h"
#include "base/device.h"
#include "base/environment.h"
#include "log.h"
#include "patience.h"
#include "exchange/request.h"
#include "slices.h"

struct tsr_device tsr_devices[TESSERA_MAX_GPUS];
int tsr_device_count;

enum { UUID_TEXT_BYTES = 37 };

/* A slice or whole GPU: the folder's name, and gpud's description. */
struct found {
  struct tsr_slice_name name;
  struct tsr_slice slice; /* valid if `result` is CUDA_SUCCESS */
  enum tsr_outcome outcome;
  CUresult result;
};

/* Failures found while querying the slices. */
struct look {
  char absent[TSR_SOCKET_PATH_BYTES];  /* a socket without a listener; empty: none */
  /* a socket on which gpud closed the connection before it replied */
  char hung_up[TSR_SOCKET_PATH_BYTES];
  char silent[TSR_SOCKET_PATH_BYTES]; /* a socket on which gpud does not reply */
};

/* Query all slices. One gpud serves them all, so if it does not respond, only the first query
 * waits for it. */
static void query_all(struct found *all, int count) {
  const uint32_t share = tsr_thread_share();
  bool silent = false;
  for (struct found *one = all; one < all + count; one++) {
    int32_t status = 0;
    one->outcome = silent ? TSR_SILENT : tsr_slice_query(&one->name, share, &one->slice, &status);
    one->result = tsr_hello_result(one->outcome, status);
    silent = one->outcome == TSR_SILENT;
  }
}

/* Compare in CUDA's order: by GPU, and within a GPU by placement. Slices without a reply come
 * last, by name. */
static int by_place(const void *a, const void *b) {
  const struct found *one = a, *other = b;
  const bool silent = one->result != CUDA_SUCCESS;
  if (silent != (other->result != CUDA_SUCCESS)) return silent ? 1 : -1;
  const tessera_device_info *x = &one->slice.info, *y = &other->slice.info;
  if (!silent && x->gpu_index != y->gpu_index) return x->gpu_index < y->gpu_index ? -1 : 1;
  if (!silent && x->instance_start != y->instance_start)
    return x->instance_start < y->instance_start ? -1 : 1;
  return strcmp(one->name.text, other->name.text);
}

/* Whether a UUID, without its prefix, begins with `beginning`. */
static bool begins(const char *uuid, const char *beginning) {
  return *beginning && strncasecmp(uuid, beginning, strlen(beginning)) == 0;
}

static void write_uuid(const uint8_t *bytes, char *text) {
  for (int i = 0; i < 16; i++) {
    if (i == 4 || i == 6 || i == 8 || i == 10) *text++ = '-';
    text += sprintf(text, "%02x", bytes[i]);
  }
}

/* Read a number of up to three digits and advance `text`; -1: there is none. */
static int read_number(const char **text) {
  const size_t digits = strspn(*text, "0123456789");
  if (digits == 0 || digits > 3) return -1;
  const int number = atoi(*text);
  *text += digits;
  return number;
}

/* Whether `wanted` is this slice's MIG-GPU-<uuid>/<GPU instance>/<compute instance>, the name of
 * MIG devices before driver R470 (MIG user guide, "CUDA_VISIBLE_DEVICES"). */
static bool is_at(const struct found *one, const char *wanted) {
  if (strncasecmp(wanted, "MIG-GPU-", 8) != 0 || one->result != CUDA_SUCCESS) return false;
  char uuid[UUID_TEXT_BYTES];
  write_uuid(one->slice.info.gpu_uuid, uuid);
  const char *rest = wanted + 8 + UUID_TEXT_BYTES - 1;
  if (strncasecmp(wanted + 8, uuid, UUID_TEXT_BYTES - 1) != 0 || *rest++ != '/') return false;
  const int gpu_instance = read_number(&rest);
  if (gpu_instance < 0 || *rest++ != '/') return false;
  const int compute_instance = read_number(&rest);
  const int32_t *numbers = one->slice.info.attributes;
  return compute_instance >= 0 && *rest == 0 && gpu_instance == numbers[TESSERA_GI_ATTRIBUTE] &&
         compute_instance == numbers[TESSERA_CI_ATTRIBUTE];
}

/* Whether `wanted` names this slice: by its own UUID, or by GPU- and the UUID of its GPU. */
static bool is_named(const struct found *one, const char *wanted) {
  const bool gpu = strncasecmp(wanted, "GPU-", 4) == 0, mig = strncasecmp(wanted, "MIG-", 4) == 0;
  const char *beginning = wanted + (gpu || mig ? 4 : 0);
  const bool is_gpu = strncmp(one->name.text, "GPU-", 4) == 0;
  if ((!gpu && !mig) || gpu == is_gpu) return begins(one->name.text + 4, beginning);
  if (!gpu || one->result != CUDA_SUCCESS) return false;
  char uuid[UUID_TEXT_BYTES];
  write_uuid(one->slice.info.gpu_uuid, uuid);
  return begins(uuid, beginning);
}

/* Find the device for one entry of CUDA_VISIBLE_DEVICES: an index, a UUID or the beginning of one.
 * -1: it matches no device, or several. The UUID of a divided GPU selects its first slice. */
static int match(const char *entry, size_t length, const struct found *all, int count) {
  char wanted[TSR_SLICE_NAME_BYTES];
  if (length == 0 || length >= sizeof wanted) return -1;
  memcpy(wanted, entry, length);
  wanted[length] = 0;
  if (strspn(wanted, "0123456789") == length && length <= 3) {
    int index = 0;
    for (const char *digit = wanted; *digit; digit++) index = 10 * index + (*digit - '0');
    return index < count ? index : -1;
  }
  const bool gpu = strncasecmp(wanted, "GPU-", 4) == 0;
  int found = -1;
  for (int i = 0; i < count; i++) {
    if (!is_named(&all[i], wanted) && !is_at(&all[i], wanted)) continue;
    if (found < 0)
      found = i;
    else if (!gpu || memcmp(all[i].slice.info.gpu_uuid, all[found].slice.info.gpu_uuid, 16) != 0)
      return -1;
  }
  return found;
}

/* Log once which entry ends the list. An entry of -1 is not logged, because programs use it for
 * "none". */
static void warn_of_entry(const char *entry, size_t length, int count) {
  static bool said;
  if (said || count == 0 || (length == 2 && strncmp(entry, "-1", 2) == 0)) return;
  said = true;
  tsr_log("CUDA_VISIBLE_DEVICES: \"%.*s\" does not name one of the devices here (%d); as in CUDA,"
          " it and every entry after it are ignored",
          (int)length, entry, count);
}

/* Fill `order` with the visible devices. As in CUDA, an entry that matches nothing ends the
 * list. */
static int choose(const struct found *all, int count, int *order) {
  const char *visible = tsr_visible_devices();
  int chosen = 0;
  if (!visible) {
    for (; chosen < count; chosen++) order[chosen] = chosen;
    return chosen;
  }
  while (*visible && chosen < TSR_MAX_SLICES) {
    visible += strspn(visible, " ");
    const size_t length = strcspn(visible, ", ");
    const int index = match(visible, length, all, count);
    if (index < 0) {
      warn_of_entry(visible, length, count);
      break;
    }
    for (int i = 0; i < chosen; i++)
      if (order[i] == index) return 0; /* listed twice: as in CUDA, none is visible */
    order[chosen++] = index;
    visible += length;
    visible += strspn(visible, " ");
    if (*visible == ',') visible++;
  }
  return chosen;
}

static void add(const struct found *one) {
  struct tsr_device *device = &tsr_devices[tsr_device_count++];
  memset(device, 0, sizeof *device);
  device->slice = one->slice;
  device->window = (uint64_t)device->slice.info.gpu_index << TESSERA_GPU_WINDOW_BITS;
}

/* Make devices of the visible slices. As in CUDA, a process that sees a MIG device sees no other
 * device (MIG user guide, "CUDA Device Enumeration"). A slice whose gpud does not reply does not
 * hide others. */
static CUresult make_devices(const struct found *all, const int *order, int visible,
                             struct look *look) {
  CUresult why = CUDA_ERROR_NO_DEVICE;
  tsr_device_count = 0;
  for (int i = 0; i < visible; i++) {
    const struct found *one = &all[order[i]];
    if (one->result != CUDA_SUCCESS) {
      if (one->outcome == TSR_ABSENT)
        memcpy(look->absent, one->slice.socket_path, sizeof look->absent);
      if (one->outcome == TSR_CLOSED)
        memcpy(look->hung_up, one->slice.socket_path, sizeof look->hung_up);
      if (one->outcome == TSR_SILENT && one->slice.socket_path[0])
        memcpy(look->silent, one->slice.socket_path, sizeof look->silent);
      if (one->result != CUDA_ERROR_NO_DEVICE) why = one->result;
    } else if (one->slice.info.is_mig) {
      tsr_device_count = 0;
      add(one);
      break;
    } else if (tsr_device_count < (int)TESSERA_MAX_GPUS) {
      add(one);
    }
  }
  return tsr_device_count ? CUDA_SUCCESS : why;
}

static CUresult discover_once(struct found *all, int count, struct look *look) {
  int order[TSR_MAX_SLICES];
  query_all(all, count);
  qsort(all, (size_t)count, sizeof *all, by_place);
  const int visible = choose(all, count, order);
  return make_devices(all, order, visible, look);
}

static void warn_no_slice(void) {
  static bool said;
  if (!said)
    tsr_log("no slice in %s: start the program with `tessera run`, or ask for a slice in the"
            " pod's limits",
            tsr_config()->slices_dir);
  said = true;
}

static CUresult discover(struct tsr_slice_name *names) {
  struct tsr_patience patience = {0};
  CUresult result;
  bool again, retried = false;
  do {
    struct look look = {0};
    const int count = tsr_slices_list(names);
    if (count == 0) warn_no_slice();
    struct found *all = calloc((size_t)count + 1, sizeof *all);
    if (!all) return CUDA_ERROR_OUT_OF_MEMORY;
    for (int i = 0; i < count; i++) all[i].name = names[i];
    result = discover_once(all, count, &look);
    free(all);
    again = false;
    if (result != CUDA_ERROR_NO_DEVICE) break;
    if (look.hung_up[0] && !retried)
      again = retried = true; /* try once more at once: often gpud has just ended */
    else if (look.silent[0])
      again = tsr_patience_wait_for_reply(&patience, look.silent, TSR_QUERY_TIMEOUT_S);
    else if (look.absent[0] || look.hung_up[0])
      again = tsr_patience_wait(&patience, look.absent[0] ? look.absent : look.hung_up);
  } while (again);
  return result;
}

CUresult tsr_devices_discover(void) {
  struct tsr_slice_name *names = calloc(TSR_MAX_SLICES, sizeof *names);
  if (!names) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = discover(names);
  free(names);
  return result;
}
