#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/internal.h"

static _Thread_local sigjmp_buf escape;
static _Thread_local volatile sig_atomic_t copying;

static void on_bus_error(int number) {
  if (copying) siglongjmp(escape, 1);
  signal(number, SIG_DFL); /* not from a copy: the signal is raised again and ends the process */
}

void hca_memory_guard(void) {
  /* SA_NODEFER: the handler is left by siglongjmp(). */
  struct sigaction action = {.sa_handler = on_bus_error, .sa_flags = SA_NODEFER};
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, NULL);
}

/* A client can punch holes into its memory at any time. The next access to such a page would
 * allocate a new page and charge it to the accessing process: hcad. With userfaultfd(2) the
 * access fails instead. It covers accesses in user mode only, which needs no privilege
 * (UFFD_USER_MODE_ONLY, Linux 5.11). */
int hca_absent_open(void) {
  const int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
  if (fd < 0) return -1;
  struct uffdio_api api = {.api = UFFD_API,
                           .features = UFFD_FEATURE_SIGBUS | UFFD_FEATURE_MISSING_SHMEM};
  if (ioctl(fd, UFFDIO_API, &api) == 0) return fd;
  close(fd);
  return -1;
}

bool hca_absent_watch(int absent_fd, void *base, uint64_t bytes) {
  struct uffdio_register wanted = {.range = {.start = (uintptr_t)base, .len = bytes},
                                   .mode = UFFDIO_REGISTER_MODE_MISSING};
  return absent_fd < 0 || ioctl(absent_fd, UFFDIO_REGISTER, &wanted) == 0;
}

bool hca_copy(uint8_t *to, const uint8_t *from, uint64_t bytes) {
  if (sigsetjmp(escape, 0) != 0) {
    copying = 0;
    return false;
  }
  copying = 1;
  atomic_signal_fence(memory_order_seq_cst);
  memmove(to, from, bytes); /* both may be the same region of the same program */
  atomic_signal_fence(memory_order_seq_cst);
  copying = 0;
  return true;
}

bool hca_atomic(uint64_t *at, uint32_t opcode, uint64_t compare_add, uint64_t swap,
                uint64_t *before) {
  if (sigsetjmp(escape, 0) != 0) {
    copying = 0;
    return false;
  }
  copying = 1;
  atomic_signal_fence(memory_order_seq_cst);
  uint64_t found = compare_add;
  if (opcode == TESSERA_VERBS_OPCODE_ATOMIC_FETCH_AND_ADD)
    found = __atomic_fetch_add(at, compare_add, __ATOMIC_SEQ_CST);
  else
    __atomic_compare_exchange_n(at, &found, swap, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  *before = found;
  atomic_signal_fence(memory_order_seq_cst);
  copying = 0;
  return true;
}

bool hca_store(uint64_t *at, uint64_t value) {
  if (sigsetjmp(escape, 0) != 0) {
    copying = 0;
    return false;
  }
  copying = 1;
  atomic_signal_fence(memory_order_seq_cst);
  __atomic_store_n(at, value, __ATOMIC_SEQ_CST);
  atomic_signal_fence(memory_order_seq_cst);
  copying = 0;
  return true;
}

const struct hca_region *hca_region_of(struct hca *hca, const struct hca_qp *qp, uint32_t key,
                                       uint64_t address, uint64_t bytes, uint32_t access) {
  const struct hca_region *region = hca_table_get(&hca->regions, key);
  if (!region || region->client->ended || region->client != qp->client || region->pd != qp->pd) return NULL;
  if ((region->access & access) != access) return NULL;
  if (!hca_policy_opens(&qp->policy, region->access, access)) return NULL;
  return hca_holds(region->iova, region->bytes, address, bytes) ? region : NULL;
}

uint8_t *hca_region_at(const struct hca_region *region, uint64_t address, uint64_t *contiguous) {
  const uint64_t offset = address - region->iova;
  *contiguous = 0;
  if (region->piece_count == 0 || offset >= region->bytes) return NULL;
  unsigned first = 0, end = region->piece_count; /* the last piece that begins at or before it */
  while (end - first > 1) {
    const unsigned middle = first + (end - first) / 2;
    if (region->pieces[middle].start <= offset)
      first = middle;
    else
      end = middle;
  }
  const struct hca_piece *piece = &region->pieces[first];
  const uint64_t place = offset - piece->start;
  if (place >= piece->bytes || piece->segment->ended) return NULL;
  *contiguous = piece->bytes - place;
  return piece->segment->base + piece->offset + place;
}
