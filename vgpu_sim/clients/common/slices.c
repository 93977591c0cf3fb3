#define _GNU_SOURCE
#include "slices.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"

static int by_name(const void *a, const void *b) {
  return strcmp(((const struct tsr_slice_name *)a)->text, ((const struct tsr_slice_name *)b)->text);
}

/* Only a folder that is named like a slice or like a whole GPU can belong to a gpud that is
 * restarting. */
static bool is_slice_name(const char *name) {
  return (strncmp(name, "MIG-", 4) == 0 || strncmp(name, "GPU-", 4) == 0) &&
         strlen(name) < TSR_SLICE_NAME_BYTES;
}

int tsr_slices_list(struct tsr_slice_name *names) {
  DIR *directory = opendir(tsr_config()->slices_dir);
  if (!directory) return 0;
  int count = 0;
  for (const struct dirent *entry; count < TSR_MAX_SLICES && (entry = readdir(directory));) {
    if (!is_slice_name(entry->d_name)) continue;
    strcpy(names[count++].text, entry->d_name);
  }
  closedir(directory);
  qsort(names, (size_t)count, sizeof *names, by_name);
  return count;
}

/* Copy gpud's description of the slice; false where it is invalid. */
static bool read_info(const struct tsr_reply *reply, tessera_device_info *info) {
  if (reply->payload_bytes != sizeof *info) return false;
  memcpy(info, reply->payload, sizeof *info);
  info->name[sizeof info->name - 1] = 0;
  info->profile[sizeof info->profile - 1] = 0;
  info->board[sizeof info->board - 1] = 0;
  return info->gpu_index < TESSERA_MAX_GPUS;
}

enum tsr_outcome tsr_slice_query(const struct tsr_slice_name *name, uint32_t thread_share,
                                 struct tsr_slice *slice, int32_t *status) {
  const struct tsr_config *config = tsr_config();
  if ((size_t)snprintf(slice->socket_path, sizeof slice->socket_path, "%s/%s/s.sock",
                       config->slices_dir, name->text) >= sizeof slice->socket_path)
    return TSR_UNREACHABLE;
  const int socket = tsr_connect(slice->socket_path);
  if (tsr_is_silent(socket)) return TSR_SILENT;
  if (socket < 0) return tsr_is_absent(socket, slice->socket_path) ? TSR_ABSENT : TSR_UNREACHABLE;
  tessera_hello hello = {.version_min = TESSERA_PROTOCOL_OLDEST,
                         .version_max = TESSERA_PROTOCOL_VERSION,
                         .thread_share = thread_share};
  memcpy(hello.token, config->token, sizeof hello.token);
  static struct tsr_reply reply;
  enum tsr_outcome outcome =
      tsr_hello(socket, TESSERA_MESSAGE_TYPE_HELLO_QUERY, &hello, TSR_QUERY_TIMEOUT_S, &reply);
  close(socket);
  if (outcome != TSR_RECEIVED) return outcome;
  *status = reply.status;
  if (reply.status == 0 && !read_info(&reply, &slice->info)) outcome = TSR_MALFORMED;
  tsr_reply_close(&reply);
  return outcome;
}
