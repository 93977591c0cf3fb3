#define _GNU_SOURCE
#include "exchange/share.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fcntl.h>

#include "base/aperture.h"
#include "exchange/request.h"

struct offer {
  struct offer *next;
  struct tsr_context *context;
  uint64_t address;
  tessera_shared_memory name;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the offers; a leaf */
static struct offer *offers;
static _Atomic uint32_t count;

static struct offer *find(uint64_t address, uint16_t purpose) {
  struct offer *one = offers;
  while (one && (one->address != address || one->name.purpose != purpose)) one = one->next;
  return one;
}

CUresult tsr_share_name(struct tsr_context *context, uint64_t offset, uint64_t bytes,
                        uint32_t kind, tessera_shared_memory *name) {
  const tessera_chunk range = {.offset = offset, .bytes = bytes, .kind = kind};
  struct tsr_reply reply;
  CUresult result =
      tsr_ask(context, TESSERA_MESSAGE_TYPE_SHARE, &range, sizeof range, -1, &reply);
  if (result != CUDA_SUCCESS) return result;
  if (reply.payload_bytes == sizeof *name)
    memcpy(name, reply.payload, sizeof *name);
  else
    result = CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
  tsr_reply_close(&reply);
  return result;
}

CUresult tsr_share_offer(struct tsr_context *context, uint64_t address, uint64_t bytes,
                         uint32_t kind, uint16_t purpose, uint64_t tag,
                         tessera_shared_memory *name) {
  pthread_mutex_lock(&lock);
  struct offer *known = bytes ? find(address, purpose) : NULL;
  if (known) *name = known->name;
  pthread_mutex_unlock(&lock);
  if (known) return CUDA_SUCCESS;
  struct offer *made = malloc(sizeof *made);
  if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
  const uint64_t offset = bytes ? address - tsr_aperture_base : 0;
  const CUresult result = tsr_share_name(context, offset, bytes, kind, name);
  if (result != CUDA_SUCCESS) {
    free(made);
    return result;
  }
  name->purpose = purpose;
  name->tag = tag;
  pthread_mutex_lock(&lock);
  *made = (struct offer){.next = offers, .context = context, .address = address, .name = *name};
  offers = made;
  atomic_fetch_add(&count, 1);
  pthread_mutex_unlock(&lock);
  return CUDA_SUCCESS;
}

void tsr_share_forget(struct tsr_context *context, const tessera_shared_memory *name) {
  struct tsr_reply reply;
  tsr_ask(context, TESSERA_MESSAGE_TYPE_SHARE_END, name, sizeof *name, -1, &reply);
  tsr_reply_close(&reply);
}

bool tsr_share_own(const tessera_shared_memory *name, uint64_t *address) {
  pthread_mutex_lock(&lock);
  const struct offer *one = offers;
  while (one && memcmp(one->name.key, name->key, sizeof name->key) != 0) one = one->next;
  if (one) *address = one->address;
  pthread_mutex_unlock(&lock);
  return one != NULL;
}

/* Take the offers that match out of the list. */
static struct offer *take(uint64_t address, const struct tsr_context *context) {
  struct offer *taken = NULL;
  pthread_mutex_lock(&lock);
  for (struct offer **link = &offers; *link;) {
    struct offer *one = *link;
    if (context ? one->context != context : one->address != address) {
      link = &one->next;
      continue;
    }
    *link = one->next;
    one->next = taken;
    taken = one;
    atomic_fetch_sub(&count, 1);
  }
  pthread_mutex_unlock(&lock);
  return taken;
}

void tsr_share_end(uint64_t address) {
  if (!atomic_load_explicit(&count, memory_order_relaxed)) return;
  for (struct offer *one = take(address, NULL), *next; one; one = next) {
    next = one->next;
    tsr_share_forget(one->context, &one->name);
    free(one);
  }
}

void tsr_share_drop(const struct tsr_context *context) {
  for (struct offer *one = take(0, context), *next; one; one = next) {
    next = one->next;
    free(one);
  }
}

/* The content of a descriptor. */
struct file {
  char magic[8];
  tessera_shared_memory name;
};
static const char MAGIC[8] = {'T', 'S', 'S', 'H', 'A', 'R', 'E', '1'};

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL };

int tsr_share_to_descriptor(const tessera_shared_memory *name) {
  struct file file = {.name = *name};
  memcpy(file.magic, MAGIC, sizeof MAGIC);
  /* The system call, because glibc has memfd_create() only since 2.27. */
  const int fd = (int)syscall(SYS_memfd_create, "tessera-share", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return -1;
  if (write(fd, &file, sizeof file) == sizeof file && fcntl(fd, F_ADD_SEALS, SEALS) == 0) return fd;
  close(fd);
  return -1;
}

bool tsr_share_from_descriptor(int fd, tessera_shared_memory *name) {
  struct file file;
  if (fd < 0 || fcntl(fd, F_GET_SEALS) != SEALS || pread(fd, &file, sizeof file, 0) != sizeof file ||
      memcmp(file.magic, MAGIC, sizeof MAGIC) != 0)
    return false;
  *name = file.name;
  return true;
}
