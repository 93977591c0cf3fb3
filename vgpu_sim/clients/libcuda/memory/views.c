#define _GNU_SOURCE
#include "memory/views.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/aperture.h"
#include "base/sync_memops.h"
#include "exchange/request.h"

pthread_mutex_t tsr_view_lock = PTHREAD_MUTEX_INITIALIZER;
struct tsr_views *tsr_reserved;

size_t tsr_views_first(const struct tsr_views *views, uint64_t start) {
  size_t low = 0, high = views->count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (views->list[middle].start + views->list[middle].bytes > start)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

/* Return the id of adjacent views, of which the first one begins at `start`. */
static uint64_t id_of(const struct tsr_chunk *chunk, uint64_t start) {
  return chunk->id << TSR_ALLOCATION_BITS |
         start / TESSERA_CHUNK_ALIGN_BYTES % (1 << TSR_ALLOCATION_BITS);
}

static bool is_open(const struct tsr_view *view, const struct tsr_context *context) {
  return view->accessible && view->physical->context == context;
}

bool tsr_views_find(const struct tsr_chunk *chunk, uint64_t offset, struct tsr_span *span) {
  const struct tsr_views *views = chunk->views;
  size_t first = tsr_views_first(views, offset);
  if (first == views->count || views->list[first].start > offset) return false;
  struct tsr_context *context = views->list[first].physical->context;
  if (!context || !views->list[first].accessible) return false;
  size_t last = first;
  while (first > 0 && is_open(&views->list[first - 1], context) &&
         views->list[first - 1].start + views->list[first - 1].bytes == views->list[first].start)
    first--;
  while (last + 1 < views->count && is_open(&views->list[last + 1], context) &&
         views->list[last].start + views->list[last].bytes == views->list[last + 1].start)
    last++;
  const uint64_t start = views->list[first].start;
  *span = (struct tsr_span){
      .context = context,
      .kind = TESSERA_CHUNK_KIND_DEVICE,
      .address = tsr_aperture_base + chunk->offset + start,
      .bytes = views->list[last].start + views->list[last].bytes - start,
      .alias = chunk->alias + start,
      .sort = {.use = TSR_USE_RESERVED},
      .id = id_of(chunk, start),
  };
  return true;
}

struct tsr_views *tsr_views_at(uint64_t address) {
  if (!tsr_aperture_holds(address)) return NULL;
  const uint64_t offset = address - tsr_aperture_base;
  struct tsr_views *views = tsr_reserved;
  while (views && offset - views->offset >= views->bytes) views = views->next;
  return views;
}

bool tsr_views_add(struct tsr_views *views, struct tsr_view view) {
  const size_t at = tsr_views_first(views, view.start);
  if (at < views->count && views->list[at].start < view.start + view.bytes) return false;
  pthread_mutex_lock(&tsr_memory_lock);
  if (views->count == views->capacity) {
    const size_t wanted = views->capacity ? 2 * views->capacity : 16;
    struct tsr_view *grown = realloc(views->list, wanted * sizeof *grown);
    if (!grown) {
      pthread_mutex_unlock(&tsr_memory_lock);
      return false;
    }
    views->list = grown;
    views->capacity = wanted;
  }
  memmove(&views->list[at + 1], &views->list[at], (views->count - at) * sizeof *views->list);
  views->list[at] = view;
  views->count++;
  pthread_mutex_unlock(&tsr_memory_lock);
  return true;
}

void tsr_views_remove(struct tsr_views *views, size_t index) {
  pthread_mutex_lock(&tsr_memory_lock);
  const struct tsr_chunk *chunk = tsr_chunk_at(tsr_aperture_base + views->offset);
  const uint64_t id = id_of(chunk, views->list[index].start);
  tsr_sync_memops_clear(id, id);
  views->count--;
  memmove(&views->list[index], &views->list[index + 1],
          (views->count - index) * sizeof *views->list);
  pthread_mutex_unlock(&tsr_memory_lock);
}

static uint8_t *alias_of(const struct tsr_views *views) {
  pthread_mutex_lock(&tsr_memory_lock);
  const struct tsr_chunk *chunk = tsr_chunk_at(tsr_aperture_base + views->offset);
  uint8_t *const alias = chunk ? chunk->alias : NULL;
  pthread_mutex_unlock(&tsr_memory_lock);
  return alias;
}

static void set_accessible(struct tsr_view *view, bool accessible) {
  pthread_mutex_lock(&tsr_memory_lock);
  view->accessible = accessible;
  pthread_mutex_unlock(&tsr_memory_lock);
}

static CUresult request(struct tsr_context *context, uint16_t type, const tessera_view *wanted) {
  struct tsr_reply reply;
  const CUresult result = tsr_ask(context, type, wanted, sizeof *wanted, -1, &reply);
  tsr_reply_close(&reply);
  return result;
}

static void blank(const struct tsr_views *views, const struct tsr_view *view) {
  uint8_t *const alias = alias_of(views);
  if (alias)
    mmap(alias + view->start, view->bytes, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

CUresult tsr_view_open(struct tsr_views *views, struct tsr_view *view) {
  if (view->accessible) return CUDA_SUCCESS;
  if (!view->physical->context) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  uint8_t *const alias = alias_of(views);
  /* With an old size of 0, a shared mapping is duplicated. */
  if (!alias || mremap(view->physical->alias, 0, view->bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
                       alias + view->start) == MAP_FAILED)
    return CUDA_ERROR_OUT_OF_MEMORY;
  madvise(alias + view->start, view->bytes, MADV_DONTFORK);
  const tessera_view wanted = {.offset = views->offset + view->start,
                               .source = view->physical->offset,
                               .bytes = view->bytes};
  const CUresult result =
      request(view->physical->context, TESSERA_MESSAGE_TYPE_VIEW_MAP, &wanted);
  if (result == CUDA_SUCCESS)
    set_accessible(view, true);
  else
    blank(views, view);
  return result;
}

CUresult tsr_view_shut(struct tsr_views *views, struct tsr_view *view) {
  if (!view->accessible) return CUDA_SUCCESS;
  set_accessible(view, false);
  blank(views, view);
  if (!view->physical->context) return CUDA_SUCCESS;
  const tessera_view wanted = {.offset = views->offset + view->start, .bytes = view->bytes};
  return request(view->physical->context, TESSERA_MESSAGE_TYPE_VIEW_UNMAP, &wanted);
}
