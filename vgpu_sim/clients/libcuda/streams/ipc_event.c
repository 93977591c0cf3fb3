/* cuIpcGetEventHandle and cuIpcOpenEventHandle. A handle is the name of the table that contains the
 * event; its tag is the event's generation and index in the table. */
#include <string.h>

#include "api.h"
#include "base/refuse.h"
#include "contexts/context.h"
#include "exchange/share.h"
#include "sharing/event_import.h"
#include "streams/shared_event.h"

_Static_assert(sizeof(CUipcEventHandle) == sizeof(tessera_shared_memory), "handles hold a name");

enum { INDEX_BITS = 16 };

CUresult tsr_cuIpcGetEventHandle(CUipcEventHandle *pHandle, CUevent hEvent) {
  const struct tsr_event *event = TSR_FIND(tsr_event, TSR_EVENT, hEvent);
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  struct tsr_context *context = TSR_FIND(tsr_context, TSR_CONTEXT, event->context_handle);
  if (!context) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (!pHandle) return CUDA_ERROR_INVALID_VALUE;
  const struct tsr_event_place *place = event->shared ? tsr_shared_event_place(event) : NULL;
  if (!place) return CUDA_ERROR_INVALID_HANDLE;
  tessera_shared_memory name;
  const CUresult result =
      tsr_share_offer(context, place->table, sizeof(tessera_event_table), TESSERA_CHUNK_KIND_HOST,
                      TSR_SHARE_EVENTS, 0, &name);
  if (result != CUDA_SUCCESS) return result;
  name.tag = place->generation << INDEX_BITS | place->index;
  memcpy(pHandle, &name, sizeof name);
  return CUDA_SUCCESS;
}

static CUresult open_event(struct tsr_context *context, const tessera_shared_memory *name,
                           struct tsr_event *event) {
  event->context = context;
  event->context_handle = tsr_object_handle(TSR_CONTEXT, context);
  event->flags = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING;
  event->timestamp = -1;
  uint64_t table;
  CUresult result = tsr_event_import(context, name, &table);
  if (result != CUDA_SUCCESS) return result;
  struct tsr_event_place place;
  result = tsr_event_place_at(table, name->tag & ((1u << INDEX_BITS) - 1), name->tag >> INDEX_BITS,
                              &place);
  if (result == CUDA_SUCCESS) result = tsr_shared_event_join(event, &place);
  if (result != CUDA_SUCCESS) tsr_event_unimport(event->context_handle, table);
  return result;
}

CUresult tsr_cuIpcOpenEventHandle(CUevent *phEvent, CUipcEventHandle handle) {
  TSR_CURRENT(context);
  if (!phEvent) return CUDA_ERROR_INVALID_VALUE;
  tessera_shared_memory name, own;
  memcpy(&name, &handle, sizeof name);
  if (name.purpose != TSR_SHARE_EVENTS) return CUDA_ERROR_INVALID_HANDLE;
  if (!(context->page->features & TESSERA_FEATURE_EVENTS))
    TSR_REFUSE("an interprocess event with a worker of an older version");
  own = name;
  own.tag = 0;
  uint64_t address;
  if (tsr_share_own(&own, &address)) return CUDA_ERROR_INVALID_CONTEXT; /* not by its exporter */
  struct tsr_event *event = tsr_object_new(TSR_EVENT);
  if (!event) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = open_event(context, &name, event);
  if (result != CUDA_SUCCESS) {
    tsr_object_free(TSR_EVENT, event);
    return result;
  }
  *phEvent = (CUevent)(uintptr_t)tsr_object_publish(TSR_EVENT, event);
  return CUDA_SUCCESS;
}
