/* A region is a range of whole pages of the program, which a chunk of pinned memory replaces. A
 * registration is a range of bytes in one region. A region in the heap extends to the borders of
 * its 2 MiB, so that neighbouring allocations, which share pages, can be registered too. */
#define _GNU_SOURCE
#include "registered/registered.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "base/aperture.h"
#include "base/refuse.h"
#include "exchange/wait.h"
#include "log.h"
#include "registered/host_maps.h"
#include "registered/host_pages.h"

enum { MOST_PARTS = 64 };
static const uint64_t PAGE = TESSERA_PAGE_BYTES, WINDOW = TESSERA_CHUNK_ALIGN_BYTES;

struct region {
  struct region *next;
  struct tsr_context *context;
  uint64_t begin, end; /* pages of the program */
  uint64_t address;    /* of its chunk, in the aperture */
  uint32_t major, minor;
  uint64_t inode; /* of its memory */
  uint32_t registrations;
};

struct registration {
  struct registration *next;
  struct region *region;
  uint64_t begin, bytes;
  uint32_t flags;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below; outermost but one */
static struct region *regions;
static struct registration *registrations;
static _Atomic uint32_t count;
/* Shared with the child of a fork, which sets it once it has copies. */
static _Atomic uint32_t *copied;

static bool overlap(uint64_t a, uint64_t a_end, uint64_t b, uint64_t b_end) {
  return a < b_end && b < a_end;
}

/* Whether a mapping is memory of the region at its place: the program may have unmapped it. */
static bool is_of(const struct region *region, const struct tsr_mapping *mapping) {
  return mapping->shared && mapping->inode == region->inode && mapping->major == region->major &&
         mapping->minor == region->minor && mapping->file_offset == mapping->begin - region->begin;
}

static CUresult check(const struct tsr_mapping *mapping, uint64_t stack) {
  if (mapping->shared) TSR_REFUSE("cuMemHostRegister of a shared mapping");
  /* The pages of the stack on which this runs cannot be replaced by a copy that was made before. */
  if (mapping->special || overlap(stack, stack + 1, mapping->begin, mapping->end))
    TSR_REFUSE("cuMemHostRegister of a stack, device memory or huge pages");
  if (mapping->executable) TSR_REFUSE("cuMemHostRegister of executable memory");
  return mapping->readable && mapping->writable ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Give the pages [begin, end) of a region the region's memory, where they do not have it. */
static CUresult share(const struct region *region, uint64_t begin, uint64_t end) {
  struct tsr_mapping parts[MOST_PARTS];
  const uint64_t stack = (uint64_t)(uintptr_t)parts;
  const int part_count = tsr_mappings_find(begin, end, parts, MOST_PARTS);
  if (part_count < 0) return CUDA_ERROR_INVALID_VALUE;
  for (int i = 0; i < part_count; i++) {
    if (is_of(region, &parts[i])) continue;
    const CUresult result = check(&parts[i], stack);
    if (result != CUDA_SUCCESS) return result;
  }
  for (int i = 0; i < part_count; i++)
    if (!is_of(region, &parts[i]) &&
        !tsr_pages_share(parts[i].begin, parts[i].end - parts[i].begin,
                         region->address + (parts[i].begin - region->begin)))
      return CUDA_ERROR_OUT_OF_MEMORY;
  return CUDA_SUCCESS;
}

/* Give a region's pages memory of their own, wherever the program has moved them. Pages that it has
 * unmapped stay as they are. Only after success does nothing of the program use the chunk. */
static CUresult make_private(const struct region *region) {
  const struct tsr_mapping file = {
      .major = region->major, .minor = region->minor, .inode = region->inode};
  CUresult result = CUDA_SUCCESS;
  struct tsr_mapping part;
  int found;
  for (uint64_t at = 0; (found = tsr_mapping_of(at, &file, &part)) > 0; at = part.end)
    if (!tsr_aperture_holds(part.begin) &&
        !tsr_pages_make_private(part.begin, part.end - part.begin))
      result = CUDA_ERROR_OUT_OF_MEMORY;
  return found < 0 ? CUDA_ERROR_OPERATING_SYSTEM : result;
}

static struct region *region_at(uint64_t begin, uint64_t end) {
  for (struct region *region = regions; region; region = region->next)
    if (overlap(region->begin, region->end, begin, end)) return region;
  return NULL;
}

/* Extend the pages [*begin, *end), if they are in the heap, to all of the heap in their 2 MiB. */
static void extend(uint64_t *begin, uint64_t *end) {
  uint64_t first = *begin / WINDOW * WINDOW, last = first + WINDOW;
  struct tsr_mapping heap;
  if (!tsr_mapping_from(*begin, &heap) || !heap.heap || heap.begin > *begin || heap.end < *end ||
      last < *end)
    return;
  if (first < heap.begin) first = heap.begin;
  if (last > heap.end) last = heap.end;
  if (region_at(first, last)) return;
  *begin = first;
  *end = last;
}

static CUresult add_region(struct tsr_context *context, uint64_t begin, uint64_t end,
                           struct region **made) {
  extend(&begin, &end);
  struct region *region = malloc(sizeof *region);
  if (!region) return CUDA_ERROR_OUT_OF_MEMORY;
  *region = (struct region){.context = context, .begin = begin, .end = end};
  const uint64_t chunk_bytes = (end - begin + WINDOW - 1) / WINDOW * WINDOW;
  CUresult result = tsr_memory_allocate(context, (struct tsr_sort){.use = TSR_USE_REGISTERED},
                                        chunk_bytes, &region->address);
  if (result != CUDA_SUCCESS) {
    free(region);
    return result;
  }
  struct tsr_mapping chunk;
  if (tsr_mappings_find(region->address, region->address + PAGE, &chunk, 1) == 1) {
    region->inode = chunk.inode;
    region->major = chunk.major;
    region->minor = chunk.minor;
    result = share(region, begin, end);
  } else {
    result = CUDA_ERROR_OPERATING_SYSTEM;
  }
  if (result != CUDA_SUCCESS) {
    if (!region->inode || make_private(region) == CUDA_SUCCESS)
      tsr_memory_release(region->address, TSR_USE_REGISTERED);
    free(region);
    return result;
  }
  region->next = regions;
  regions = region;
  *made = region;
  return CUDA_SUCCESS;
}

/* End a region without registrations. */
static CUresult remove_region(struct region *region) {
  struct region **link = &regions;
  while (*link != region) link = &(*link)->next;
  *link = region->next;
  const CUresult result = make_private(region);
  /* Pages that could not be replaced keep the chunk, and with it their content. */
  if (result == CUDA_SUCCESS && tsr_object_lives(region->context))
    tsr_memory_release(region->address, TSR_USE_REGISTERED);
  free(region);
  return result;
}

static bool prepare_for_forks(void) {
  if (copied) return true;
  void *page =
      mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return false;
  copied = page;
  return true;
}

static CUresult add_locked(struct tsr_context *context, uint64_t begin, uint64_t bytes,
                           uint32_t flags) {
  const uint64_t first = begin / PAGE * PAGE, end = (begin + bytes + PAGE - 1) / PAGE * PAGE;
  for (struct registration *one = registrations; one; one = one->next)
    if (overlap(one->begin, one->begin + one->bytes, begin, begin + bytes))
      return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  struct registration *made = malloc(sizeof *made);
  if (!made || !prepare_for_forks()) {
    free(made);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  struct region *region = region_at(first, end);
  CUresult result;
  if (!region) {
    result = add_region(context, first, end, &region);
  } else if (first < region->begin || end > region->end || region->context != context) {
    tsr_log("cuMemHostRegister: %#llx shares a page with registered memory that ends there; "
            "allocate it in whole pages",
            (unsigned long long)begin);
    result = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  } else {
    result = share(region, first, end);
  }
  if (result != CUDA_SUCCESS) {
    free(made);
    return result;
  }
  region->registrations++;
  *made = (struct registration){
      .next = registrations, .region = region, .begin = begin, .bytes = bytes, .flags = flags};
  registrations = made;
  atomic_fetch_add(&count, 1);
  return CUDA_SUCCESS;
}

CUresult tsr_registered_add(struct tsr_context *context, uint64_t begin, uint64_t bytes,
                            uint32_t flags) {
  pthread_mutex_lock(&lock);
  const CUresult result = add_locked(context, begin, bytes, flags);
  pthread_mutex_unlock(&lock);
  return result;
}

static CUresult remove_from(struct registration **link) {
  struct registration *one = *link;
  struct region *region = one->region;
  *link = one->next;
  free(one);
  atomic_fetch_sub(&count, 1);
  return --region->registrations ? CUDA_SUCCESS : remove_region(region);
}

CUresult tsr_registered_remove(uint64_t begin) {
  struct tsr_span span;
  if (!tsr_registered_find(begin, &span) || tsr_aperture_holds(begin))
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  if ((uint64_t)(uintptr_t)span.alias != begin) return CUDA_ERROR_INVALID_VALUE;
  /* Work in progress may still use the memory. */
  CUresult result = tsr_wait_all(span.context);
  if (result != CUDA_SUCCESS) return result;
  result = CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED; /* any more */
  pthread_mutex_lock(&lock);
  struct registration **link = &registrations;
  while (*link && (*link)->begin != begin) link = &(*link)->next;
  if (*link) result = remove_from(link);
  pthread_mutex_unlock(&lock);
  return result;
}

static uint64_t device_address(const struct registration *one) {
  return one->region->address + (one->begin - one->region->begin);
}

bool tsr_registered_find(uint64_t address, struct tsr_span *span) {
  if (!atomic_load_explicit(&count, memory_order_relaxed)) return false;
  const bool device = tsr_aperture_holds(address);
  pthread_mutex_lock(&lock);
  struct registration *one = registrations;
  while (one && address - (device ? device_address(one) : one->begin) >= one->bytes)
    one = one->next;
  if (one)
    *span = (struct tsr_span){
        .context = one->region->context,
        .kind = TESSERA_CHUNK_KIND_HOST,
        .address = device_address(one),
        .bytes = one->bytes,
        .alias = (uint8_t *)(uintptr_t)one->begin,
        .sort = {.use = TSR_USE_REGISTERED, .host_flags = one->flags},
        .id = device_address(one) / TESSERA_PAGE_BYTES << 12 | one->begin % PAGE};
  pthread_mutex_unlock(&lock);
  return one != NULL;
}

void tsr_registered_drop(const struct tsr_context *context) {
  pthread_mutex_lock(&lock);
  for (struct registration **link = &registrations; *link;) {
    if ((*link)->region->context == context)
      remove_from(link);
    else
      link = &(*link)->next;
  }
  pthread_mutex_unlock(&lock);
}

void tsr_registered_before_fork(void) {
  pthread_mutex_lock(&lock);
  if (copied) atomic_store(copied, 0);
}

/* The most that a parent waits for a child that is still copying. */
enum { PATIENCE_MS = 2000 };

void tsr_registered_in_parent(void) {
  const struct timespec pause = {.tv_nsec = 1000000};
  int waited = 0;
  for (; regions && waited < PATIENCE_MS && !atomic_load(copied); waited++) nanosleep(&pause, NULL);
  if (waited == PATIENCE_MS)
    tsr_log("fork: the child has not copied the registered memory in %d s; what this process writes "
            "meanwhile may be in its copy",
            PATIENCE_MS / 1000);
  pthread_mutex_unlock(&lock);
}

void tsr_registered_in_child(void) {
  CUresult result = CUDA_SUCCESS;
  for (struct region *region = regions; region; region = region->next) {
    const CUresult one = make_private(region);
    if (one != CUDA_SUCCESS) result = one;
  }
  regions = NULL;
  registrations = NULL;
  atomic_store(&count, 0);
  if (copied) {
    atomic_store(copied, 1);
    munmap((void *)copied, PAGE); /* or a child of this child would answer the parent */
    copied = NULL;
  }
  if (result != CUDA_SUCCESS) { /* never write to the parent's memory */
    tsr_log("fork: registered memory cannot be copied for the child (error %d), which ends", result);
    abort();
  }
  lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}
