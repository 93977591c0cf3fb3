#define _GNU_SOURCE
#include "memory/remap.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api.h"
#include "command/command.h"
#include "log.h"
#include "memory/own_stack.h"

#define PAGE TESSERA_HCA_PAGE_BYTES

/* One line of /proc/self/maps; zeros before the first. */
struct mapping {
  uint64_t from, to, inode;
  int protection;
  bool shared;
  bool above_hole; /* nothing is mapped directly below it */
};

/* Read the next line. */
static bool read_mapping(FILE *maps, struct mapping *mapping) {
  char line[512], flags[5];
  const uint64_t below = mapping->to;
  if (!fgets(line, sizeof line, maps)) return false;
  if (!strchr(line, '\n')) /* a long path: skip the rest */
    for (int c; (c = fgetc(maps)) != EOF && c != '\n';) continue;
  if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*x %*s %" SCNu64, &mapping->from,
             &mapping->to, flags, &mapping->inode) < 4)
    return false;
  mapping->protection =
      (flags[0] == 'r' ? PROT_READ : 0) | (flags[1] == 'w' ? PROT_WRITE : 0) |
      (flags[2] == 'x' ? PROT_EXEC : 0);
  mapping->shared = flags[3] == 's';
  mapping->above_hole = mapping->from > below;
  return true;
}

/* After ibv_fork_init() a child does not inherit registered pages; otherwise it would share
 * them. */
static atomic_bool hides_from_children, has_registered;

int tsr_ibv_fork_init(void) {
  if (hides_from_children) return 0;
  if (has_registered) return EINVAL; /* as in rdma-core: too late */
  hides_from_children = true;
  return 0;
}

int tsr_ibv_is_fork_initialized(void) {
  return hides_from_children ? IBV_FORK_ENABLED : IBV_FORK_DISABLED;
}

/* Return the end of the segment's pages that begin at an address; 0: it has none there. */
static uint64_t end_of(const struct tsr_segment *segment, uint64_t address) {
  const uint64_t from = (uintptr_t)segment->address;
  if (address - from >= segment->bytes) return 0;
  uint64_t end = from + segment->bytes;
  for (const struct tsr_hole *hole = segment->holes; hole; hole = hole->next) {
    if (hole->from <= address && address < hole->to) return 0;
    if (hole->from > address && hole->from < end) end = hole->from;
  }
  return end;
}

/* Find the segment with a page at an address; `*end` receives the end of its pages. Without a
 * segment, return NULL, and in `*end` the nearest address at which a segment's pages may begin. */
static struct tsr_segment *segment_at(const struct tsr_context *context, uint64_t address,
                                      uint64_t *end) {
  uint64_t next = UINT64_MAX;
  for (struct tsr_segment *segment = context->segments; segment; segment = segment->next) {
    if ((*end = end_of(segment, address)) != 0) return segment;
    const uint64_t from = (uintptr_t)segment->address;
    if (from > address && from < next) next = from;
    for (const struct tsr_hole *hole = segment->holes; hole; hole = hole->next)
      if (hole->to > address && hole->to < next) next = hole->to;
  }
  *end = next;
  return NULL;
}

static uint64_t inode_of(int fd) {
  struct stat status;
  return fstat(fd, &status) == 0 ? status.st_ino : 0;
}

/* Whether the pages still belong to the segment: the program may have mapped others there. */
static bool is_ours(const struct tsr_segment *segment, const struct mapping *mapping) {
  return segment && mapping->shared && mapping->inode == segment->inode;
}

/* Pages to be replaced by other pages with the same content. The calling thread's stack may be
 * among them, and must not be written between the copy and the replacement, so both run on a
 * separate stack. Another thread's writes to the pages in between are lost. */
struct exchange {
  const struct tsr_segment *segment;
  uint8_t *window; /* the new memory, mapped at another address */
  int fd, error;
};

/* Not memcpy(): the address sanitizer's version rejects the gaps between a program's variables,
 * and the thread sanitizer's runs handlers of pending signals. */
__attribute__((no_sanitize_address, no_sanitize_thread))
static void copy_pages(uint8_t *to, const uint8_t *from, uint64_t bytes) {
  typedef uint64_t words __attribute__((vector_size(64), may_alias));
  for (uint64_t at = 0; at < bytes; at += sizeof(words)) {
    *(words *)(to + at) = *(const words *)(from + at);
    __asm__ volatile("" ::: "memory"); /* prevents the compiler from emitting memcpy() */
  }
}

static void put_in_place(void *argument) {
  struct exchange *exchange = argument;
  uint8_t *const address = exchange->segment->address;
  const uint64_t bytes = exchange->segment->bytes;
  const int protection = exchange->segment->protection, fd = exchange->fd;
  copy_pages(exchange->window, address, bytes);
  const void *placed =
      mmap(address, bytes, protection, MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd, 0);
  exchange->error = placed == MAP_FAILED ? errno : 0;
}

static void take_out(void *argument) {
  struct exchange *exchange = argument;
  uint8_t *const address = exchange->segment->address, *const own = exchange->window;
  const uint64_t bytes = exchange->segment->bytes;
  copy_pages(own, address, bytes);
  const void *moved = mremap(own, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, address);
  exchange->error = moved == MAP_FAILED ? errno : 0;
  if (exchange->error == 0) mprotect(address, bytes, exchange->segment->protection);
}

/* Give the program private memory again; false: the pages stay shared. */
static bool put_back(const struct tsr_segment *segment) {
  uint8_t *own = mmap(NULL, segment->bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (own == MAP_FAILED) return false;
  struct exchange exchange = {.segment = segment, .window = own};
  if (tsr_on_own_stack(take_out, &exchange) == 0 && exchange.error == 0) return true;
  munmap(own, segment->bytes);
  return false;
}

/* Make a segment and fill it with the content of `bytes` from `from` on. */
static int make_segment(struct tsr_context *context, uint64_t from, uint64_t bytes, int protection,
                        struct tsr_segment *segment) {
  const tessera_hca_segment_create wanted = {.bytes = bytes};
  tessera_hca_handle made;
  int fd;
  int error = tsr_ask(context, TESSERA_HCA_MESSAGE_SEGMENT_CREATE, &wanted, sizeof wanted, &made,
                      sizeof made, &fd);
  if (error != 0) return error;
  *segment = (struct tsr_segment){.address = (uint8_t *)(uintptr_t)from,
                                  .bytes = bytes,
                                  .inode = inode_of(fd),
                                  .handle = made.handle,
                                  .protection = protection};
  uint8_t *window = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (window == MAP_FAILED) {
    error = errno;
  } else {
    struct exchange exchange = {.segment = segment, .window = window, .fd = fd};
    error = tsr_on_own_stack(put_in_place, &exchange);
    if (error == 0) error = exchange.error;
    munmap(window, bytes);
    if (error == 0 && hides_from_children && madvise(segment->address, bytes, MADV_DONTFORK) != 0) {
      error = errno;
      put_back(segment);
    }
  }
  close(fd);
  if (error != 0) tsr_ask_handle(context, TESSERA_HCA_MESSAGE_SEGMENT_DESTROY, made.handle);
  return error;
}

static int replace(struct tsr_context *context, uint64_t from, uint64_t to,
                   const struct mapping *mapping) {
  struct tsr_segment *segment = calloc(1, sizeof *segment);
  if (!segment) return ENOMEM;
  if (from == mapping->from && mapping->above_hole) tsr_keep_growing(from);
  const int error = make_segment(context, from, to - from, mapping->protection, segment);
  if (error != 0) {
    free(segment);
    return error;
  }
  segment->next = context->segments;
  context->segments = segment;
  return 0;
}

/* Record that some pages of a segment were unmapped: what is mapped there now is not part of the
 * segment's regions. 0 or an errno value. */
static int lose(struct tsr_segment *segment, uint64_t from, uint64_t to) {
  struct tsr_hole *hole = calloc(1, sizeof *hole);
  if (!hole) return ENOMEM;
  *hole = (struct tsr_hole){.next = segment->holes, .from = from, .to = to};
  segment->holes = hole;
  return 0;
}

/* Return why the pages of a mapping cannot be replaced, or NULL. */
static const char *obstacle(const struct mapping *mapping, uint64_t from, uint64_t to) {
  if (mapping->shared) return "shared memory";
  if (!(mapping->protection & PROT_READ)) return "memory that cannot be read";
  if (mapping->protection & PROT_EXEC) return "code";
  /* pthread_join() in another thread would wait for a word that has moved. */
  if (tsr_has_control_block(from, to)) return "the control block of the thread that registers it";
  return NULL;
}

struct gap {
  uint64_t from, to;
  struct mapping mapping;
};

/* Find the gaps: ranges of pages that have not been replaced yet. Returns their number, or
 * -errno. */
static int find_gaps(struct tsr_context *context, uint64_t from, uint64_t to, struct gap *gaps) {
  FILE *maps = fopen("/proc/self/maps", "re");
  if (!maps) return -errno;
  int count = 0;
  uint64_t at = from;
  for (struct mapping mapping = {0}; at < to && read_mapping(maps, &mapping);) {
    if (mapping.to <= at) continue;
    if (mapping.from > at) break; /* a hole */
    const uint64_t end = mapping.to < to ? mapping.to : to;
    while (at < end) {
      uint64_t stop;
      struct tsr_segment *segment = segment_at(context, at, &stop);
      if (stop > end) stop = end;
      if (is_ours(segment, &mapping)) {
        at = stop;
        continue;
      }
      if (segment && lose(segment, at, stop) != 0) {
        fclose(maps);
        return -ENOMEM;
      }
      const char *why = obstacle(&mapping, at, stop);
      if (why || count == (int)TESSERA_HCA_MAX_PIECES) {
        tsr_log("ibv_reg_mr: %s cannot be registered", why ? why : "memory in so many mappings");
        fclose(maps);
        return -EOPNOTSUPP;
      }
      gaps[count++] = (struct gap){at, stop, mapping};
      at = stop;
    }
  }
  fclose(maps);
  return at < to ? -EFAULT : count;
}

bool tsr_is_pinned(const struct tsr_segment *segment, const void *address, size_t bytes) {
  if (!segment->address) return false;
  FILE *maps = fopen("/proc/self/maps", "re");
  if (!maps) return false;
  uint64_t at = (uintptr_t)segment->address, end = at + segment->bytes;
  const uint64_t from = (uintptr_t)address, to = from + bytes;
  if (at < from) at = from;
  if (end > to) end = to;
  for (struct mapping mapping = {0}; at < end && read_mapping(maps, &mapping);)
    if (mapping.to > at && mapping.from <= at && is_ours(segment, &mapping)) at = mapping.to;
  fclose(maps);
  return at >= end;
}

/* Restore private memory for all of a segment's pages that are still mapped. False where there
 * is not enough memory: the segment stays, and later registrations use its remaining pages as
 * they are. */
static bool put_all_back(const struct tsr_segment *segment) {
  enum { PARTS = 16 };
  struct tsr_segment parts[PARTS];
  const uint64_t from = (uintptr_t)segment->address, to = from + segment->bytes;
  unsigned count = PARTS;
  while (count == PARTS) { /* there may be more */
    FILE *maps = fopen("/proc/self/maps", "re");
    if (!maps) return false;
    count = 0;
    for (struct mapping mapping = {0}; count < PARTS && read_mapping(maps, &mapping);) {
      if (mapping.to <= from || mapping.from >= to || !is_ours(segment, &mapping)) continue;
      const uint64_t first = mapping.from > from ? mapping.from : from;
      parts[count] = *segment;
      parts[count].address = (uint8_t *)(uintptr_t)first;
      parts[count++].bytes = (mapping.to < to ? mapping.to : to) - first;
    }
    fclose(maps);
    for (unsigned i = 0; i < count; i++)
      if (!put_back(&parts[i])) return false;
  }
  return true;
}

static void end_segment(struct tsr_context *context, struct tsr_segment *segment) {
  if (segment->address && !put_all_back(segment)) return;
  for (struct tsr_segment **link = &context->segments; *link; link = &(*link)->next) {
    if (*link != segment) continue;
    *link = segment->next;
    break;
  }
  tsr_ask_handle(context, TESSERA_HCA_MESSAGE_SEGMENT_DESTROY, segment->handle);
  for (struct tsr_hole *hole = segment->holes, *next; hole; hole = next) {
    next = hole->next;
    free(hole);
  }
  free(segment);
}

/* Remove the segments that no region uses. */
static void sweep(struct tsr_context *context) {
  for (struct tsr_segment *segment = context->segments, *next; segment; segment = next) {
    next = segment->next;
    if (segment->regions == 0) end_segment(context, segment);
  }
}

void tsr_unpin(struct tsr_context *context, struct tsr_segment **used, unsigned count) {
  for (unsigned i = 0; i < count; i++)
    if (--used[i]->regions == 0 && !used[i]->address) end_segment(context, used[i]);
  sweep(context);
}

/* List the pieces of a range, all pages of which have been replaced. */
static int name_pieces(const struct tsr_context *context, uint64_t at, uint64_t to,
                       tessera_hca_mr_create *region, struct tsr_segment **used) {
  while (at < to) {
    uint64_t end;
    struct tsr_segment *segment = segment_at(context, at, &end);
    if (!segment) return EFAULT;
    if (region->piece_count == TESSERA_HCA_MAX_PIECES) return EOPNOTSUPP;
    const uint64_t offset = at - (uintptr_t)segment->address;
    const uint64_t part = (end < to ? end : to) - at;
    used[region->piece_count] = segment;
    region->pieces[region->piece_count++] =
        (tessera_hca_piece){.segment = segment->handle, .offset = offset, .bytes = part};
    at += part;
  }
  return 0;
}

int tsr_pin(struct tsr_context *context, void *address, size_t bytes,
            tessera_hca_mr_create *region, struct tsr_segment **used) {
  const uint64_t from = (uintptr_t)address, to = from + bytes;
  if (to < from) return EINVAL;
  struct gap *gaps = calloc(TESSERA_HCA_MAX_PIECES, sizeof *gaps);
  if (!gaps) return ENOMEM;
  const int count = find_gaps(context, from & ~(PAGE - 1), (to + PAGE - 1) & ~(PAGE - 1), gaps);
  int error = count < 0 ? -count : 0;
  for (int i = 0; i < count && error == 0; i++)
    error = replace(context, gaps[i].from, gaps[i].to, &gaps[i].mapping);
  free(gaps);
  region->piece_count = 0;
  has_registered = true;
  if (error == 0) error = name_pieces(context, from, to, region, used);
  if (error == 0)
    for (unsigned i = 0; i < region->piece_count; i++) used[i]->regions++;
  else
    sweep(context);
  return error;
}
