/* Implicit on-demand paging: regions of a program's whole address space.
 *
 * A range that a request names with such a region's key is registered when the request is
 * posted, and stays registered; the request uses that part's key. If the program has replaced a
 * part's pages meanwhile, the part is registered again. To detect this, each post with such a
 * key reads /proc/self/maps. */
#define _GNU_SOURCE
#include "memory/implicit.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "log.h"
#include "memory/region.h"
#include "memory/remap.h"

#define PAGE TESSERA_HCA_PAGE_BYTES

struct tsr_mr *tsr_implicit_new(struct ibv_pd *pd, unsigned access) {
  const unsigned known = IBV_ACCESS_ON_DEMAND | TESSERA_VERBS_ACCESS_LOCAL_WRITE;
  if (access & ~(known | (unsigned)IBV_ACCESS_OPTIONAL_RANGE)) {
    tsr_log("ibv_reg_mr: access %#x of all memory: peers cannot reach what is not registered yet",
            access);
    errno = EOPNOTSUPP;
    return NULL;
  }
  struct tsr_implicit *implicit = calloc(1, sizeof *implicit);
  if (!implicit) return NULL;
  implicit->anchor = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  struct tsr_mr *mr = NULL;
  if (implicit->anchor != MAP_FAILED)
    mr = tsr_region_new(pd, implicit->anchor, PAGE, (uintptr_t)implicit->anchor, 0);
  if (!mr) {
    const int error = errno;
    if (implicit->anchor != MAP_FAILED) munmap(implicit->anchor, PAGE);
    free(implicit);
    errno = error;
    return NULL;
  }
  struct tsr_context *context = tsr_of(pd->context);
  mr->implicit = implicit;
  mr->access = access & known;
  mr->ibv.addr = NULL;
  mr->ibv.length = SIZE_MAX;
  implicit->next = context->implicit;
  __atomic_store_n(&context->implicit, mr, __ATOMIC_RELEASE);
  return mr;
}

int tsr_implicit_end(struct tsr_mr *mr) {
  struct tsr_context *context = tsr_of(mr->ibv.context);
  struct tsr_implicit *implicit = mr->implicit;
  while (implicit->parts) {
    struct tsr_mr *part = implicit->parts;
    implicit->parts = part->next_part;
    const int error = tsr_region_end(part);
    if (error == 0) continue;
    implicit->parts = part;
    return error;
  }
  struct tsr_mr *const next = implicit->next;
  const int error = tsr_region_end(mr);
  if (error != 0) return error;
  struct tsr_mr *before = context->implicit == mr ? NULL : context->implicit;
  while (before && before->implicit->next != mr) before = before->implicit->next;
  if (before)
    before->implicit->next = next;
  else
    __atomic_store_n(&context->implicit, next, __ATOMIC_RELEASE);
  munmap(implicit->anchor, PAGE);
  free(implicit);
  return 0;
}

static bool holds(const struct tsr_mr *part, uint64_t address, uint32_t bytes) {
  const uint64_t offset = address - (uintptr_t)part->ibv.addr;
  return offset <= part->ibv.length && bytes <= part->ibv.length - offset;
}

static bool is_pinned(const struct tsr_mr *part) {
  for (unsigned i = 0; i < part->piece_count; i++)
    if (!tsr_is_pinned(part->segments[i], part->ibv.addr, part->ibv.length)) return false;
  return true;
}

int tsr_implicit_part(struct tsr_mr *mr, uint64_t address, uint32_t bytes, uint32_t *key) {
  struct tsr_context *context = tsr_of(mr->ibv.context);
  struct tsr_mr **link = &mr->implicit->parts;
  while (*link) {
    struct tsr_mr *part = *link;
    if (!holds(part, address, bytes)) {
      link = &part->next_part;
      continue;
    }
    *key = part->ibv.lkey;
    if (is_pinned(part) || tsr_region_renew(context, part) == 0) return 0;
    struct tsr_mr *const next = part->next_part; /* some of its pages are not mapped any more */
    const int error = tsr_region_end(part);
    if (error != 0) return error;
    *link = next;
  }
  const uint64_t from = address & ~(PAGE - 1);
  const uint64_t to = (address + bytes + PAGE - 1) & ~(PAGE - 1);
  if (to <= from) return EFAULT;
  struct tsr_mr *part = tsr_region_new(mr->ibv.pd, (void *)(uintptr_t)from, to - from, from,
                                       mr->access & TESSERA_VERBS_ACCESS_LOCAL_WRITE);
  if (!part) return errno;
  part->next_part = mr->implicit->parts;
  mr->implicit->parts = part;
  *key = part->ibv.lkey;
  return 0;
}

int tsr_implicit_reach(struct tsr_context *context, uint64_t address, uint32_t bytes,
                       uint32_t *key) {
  if (bytes == 0 || !__atomic_load_n(&context->implicit, __ATOMIC_ACQUIRE)) return 0;
  int error = 0;
  pthread_mutex_lock(&context->registering);
  for (struct tsr_mr *mr = context->implicit; mr; mr = mr->implicit->next) {
    if (mr->ibv.lkey != *key) continue;
    error = tsr_implicit_part(mr, address, bytes, key);
    break;
  }
  pthread_mutex_unlock(&context->registering);
  return error;
}
