/* Finds the slices that this process may use: TESSERA_SLICES_DIR, CUDA_VISIBLE_DEVICES. */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "config.h"
#include "device.h"
#include "log.h"
#include "transport.h"

enum { MAX_SLICES = 512, NAME_BYTES = 128, QUERY_TIMEOUT_S = 5 };

struct tsr_device tsr_devices[TESSERA_MAX_GPUS];
int tsr_device_count;

struct slice {
  char name[NAME_BYTES];
};

static int by_name(const void *a, const void *b) {
  return strcmp(((const struct slice *)a)->name, ((const struct slice *)b)->name);
}

static int list_slices(struct slice *slices) {
  DIR *directory = opendir(tsr_config()->slices_dir);
  if (!directory) return 0;
  int count = 0;
  for (const struct dirent *entry; count < MAX_SLICES && (entry = readdir(directory));) {
    const size_t length = strlen(entry->d_name);
    if (entry->d_name[0] == '.' || length >= NAME_BYTES) continue;
    memcpy(slices[count++].name, entry->d_name, length + 1);
  }
  closedir(directory);
  qsort(slices, (size_t)count, sizeof *slices, by_name);
  return count;
}

static CUresult query(const char *name, struct tsr_device *device) {
  const struct tsr_config *config = tsr_config();
  if ((size_t)snprintf(device->socket_path, sizeof device->socket_path, "%s/%s/s.sock",
                       config->slices_dir, name) >= sizeof device->socket_path)
    return CUDA_ERROR_NO_DEVICE;
  const int socket = tsr_connect(device->socket_path);
  if (socket < 0) return CUDA_ERROR_NO_DEVICE;
  tessera_hello hello = {.version_min = TESSERA_PROTOCOL_OLDEST,
                         .version_max = TESSERA_PROTOCOL_VERSION};
  memcpy(hello.token, config->token, sizeof hello.token);
  static struct tsr_reply reply; /* under the lock of cuInit */
  CUresult result =
      tsr_hello(socket, TESSERA_MESSAGE_TYPE_HELLO_QUERY, &hello, QUERY_TIMEOUT_S, &reply);
  close(socket);
  if (result != CUDA_SUCCESS) return result;
  tsr_reply_close(&reply);
  if (reply.payload_bytes != sizeof device->info) return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
  memcpy(&device->info, reply.payload, sizeof device->info);
  device->info.name[sizeof device->info.name - 1] = 0;
  device->info.profile[sizeof device->info.profile - 1] = 0;
  if (device->info.gpu_index >= TESSERA_MAX_GPUS) return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
  device->window = (uint64_t)device->info.gpu_index << TESSERA_GPU_WINDOW_BITS;
  return CUDA_SUCCESS;
}

static const char *without_prefix(const char *uuid) {
  if (strncasecmp(uuid, "MIG-", 4) == 0 || strncasecmp(uuid, "GPU-", 4) == 0) return uuid + 4;
  return uuid;
}

/* One entry of CUDA_VISIBLE_DEVICES: an index or (the beginning of) a UUID. -1: matches nothing,
 * or more than one slice. */
static int match(const char *entry, size_t length, const struct slice *slices, int count) {
  char wanted[NAME_BYTES];
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
    if (!*prefix || strncasecmp(without_prefix(slices[i].name), prefix, strlen(prefix)) != 0)
      continue;
    if (found >= 0) return -1;
    found = i;
  }
  return found;
}

/* Fills `order` with the visible slices. As in CUDA an entry that names nothing ends the list. */
static int choose(const struct slice *slices, int count, int *order) {
  const char *visible = tsr_config()->visible_devices;
  int chosen = 0;
  if (!visible) {
    for (; chosen < count; chosen++) order[chosen] = chosen;
    return chosen;
  }
  while (*visible && chosen < MAX_SLICES) {
    visible += strspn(visible, " ");
    const size_t length = strcspn(visible, ", ");
    const int index = match(visible, length, slices, count);
    if (index < 0) break;
    for (int i = 0; i < chosen; i++)
      if (order[i] == index) return 0; /* listed twice: CUDA shows nothing */
    order[chosen++] = index;
    visible += length;
    visible += strspn(visible, " ");
    if (*visible == ',') visible++;
  }
  return chosen;
}

CUresult tsr_slices_discover(void) {
  if (!tsr_config()->token_valid) tsr_log("TESSERA_TOKEN is not 64 hexadecimal digits: ignored");
  struct slice *slices = calloc(MAX_SLICES, sizeof *slices);
  if (!slices) return CUDA_ERROR_OUT_OF_MEMORY;
  int order[MAX_SLICES];
  const int count = list_slices(slices);
  const int visible = choose(slices, count, order);
  CUresult why = CUDA_ERROR_NO_DEVICE;
  tsr_device_count = 0;
  for (int i = 0; i < visible && tsr_device_count < (int)TESSERA_MAX_GPUS; i++) {
    struct tsr_device *device = &tsr_devices[tsr_device_count];
    memset(device, 0, sizeof *device);
    const CUresult result = query(slices[order[i]].name, device);
    if (result != CUDA_SUCCESS) {
      if (result != CUDA_ERROR_NO_DEVICE) why = result;
      continue; /* a slice whose gpud is gone hides no other one */
    }
    /* A process sees one MIG device and then no other device, as CUDA has it. */
    if (device->info.is_mig && tsr_device_count > 0) continue;
    tsr_device_count++;
    if (device->info.is_mig) break;
  }
  free(slices);
  return tsr_device_count ? CUDA_SUCCESS : why;
}
