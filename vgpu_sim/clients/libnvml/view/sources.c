#define _GNU_SOURCE
#include "view/sources.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "view/report.h"

void tsr_sources_find(struct tsr_sources *sources) {
  static const char NODE_SOCKET[] = "/run/tessera/management.sock";
  const char *named = getenv("TESSERA_MANAGEMENT_SOCKET");
  sources->count = 0;
  sources->management = named && *named ? named : NODE_SOCKET;
  sources->node = named && *named;
  if (sources->node) return;
  sources->count = tsr_slices_list(sources->names);
  sources->node = sources->count == 0 && access(NODE_SOCKET, F_OK) == 0;
}

void tsr_view_free(struct tsr_view *view) {
  free(view->instances);
  free(view->processes);
  free(view->profiles);
  free(view->xids);
  memset(view, 0, sizeof *view);
}

/* Make room for `more` records after `count`; false without memory. */
static bool grow(void **records, uint32_t count, uint32_t more, size_t bytes) {
  if (more == 0) return true;
  void *larger = realloc(*records, (count + (size_t)more) * bytes);
  if (larger) *records = larger;
  return larger != NULL;
}

#define GROW(view, records, count, more) \
  grow((void **)&(view)->records, (view)->count, more, sizeof *(view)->records)

/* Return the index of a GPU in the view, adding the GPU if it is new; -1: no room. */
static int take_gpu(struct tsr_view *view, const tessera_gpu_record *gpu) {
  for (uint32_t i = 0; i < view->gpu_count; i++) {
    if (memcmp(view->gpus[i].uuid, gpu->uuid, sizeof gpu->uuid) != 0) continue;
    view->gpus[i].visible |= gpu->visible;
    return (int)i;
  }
  if (view->gpu_count == TESSERA_MAX_GPUS) return -1;
  view->gpus[view->gpu_count] = *gpu;
  view->gpus[view->gpu_count].name[sizeof gpu->name - 1] = 0;
  view->gpus[view->gpu_count].first_profile += view->profile_count;
  return (int)view->gpu_count++;
}

/* Add a report to the view; its indices are converted to the view's. UNKNOWN if one is out of
 * range. */
static nvmlReturn_t take(struct tsr_view *view, const struct tsr_report *report) {
  const tessera_management_report *head = &report->head;
  uint32_t gpus[TESSERA_MAX_GPUS];
  if (head->gpu_count > TESSERA_MAX_GPUS) return NVML_ERROR_UNKNOWN;
  if (!GROW(view, instances, instance_count, head->instance_count) ||
      !GROW(view, processes, process_count, head->process_count) ||
      !GROW(view, profiles, profile_count, head->profile_count) ||
      !GROW(view, xids, xid_count, head->xid_count))
    return NVML_ERROR_MEMORY;
  for (uint32_t i = 0; i < head->gpu_count; i++) {
    tessera_gpu_record gpu;
    tsr_record(&gpu, report->gpus, i, sizeof gpu);
    if (gpu.profile_count > head->profile_count ||
        gpu.first_profile > head->profile_count - gpu.profile_count)
      return NVML_ERROR_UNKNOWN;
    const int index = take_gpu(view, &gpu);
    if (index < 0) return NVML_ERROR_UNKNOWN;
    gpus[i] = (uint32_t)index;
  }
  const uint32_t first = view->instance_count;
  for (uint32_t i = 0; i < head->instance_count; i++) {
    tessera_instance_record *instance = &view->instances[view->instance_count];
    memset(instance, 0, sizeof *instance);
    tsr_record(instance, report->instances, i, report->instance_bytes);
    if (instance->gpu >= head->gpu_count) return NVML_ERROR_UNKNOWN;
    instance->gpu = gpus[instance->gpu];
    instance->name[sizeof instance->name - 1] = 0;
    view->instance_count++;
  }
  for (uint32_t i = 0; i < head->process_count; i++) {
    tessera_process_record *process = &view->processes[view->process_count];
    tsr_record(process, report->processes, i, sizeof *process);
    if (process->instance >= head->instance_count) return NVML_ERROR_UNKNOWN;
    process->instance += first;
    view->process_count++;
  }
  for (uint32_t i = 0; i < head->profile_count; i++) {
    tessera_profile_record *profile = &view->profiles[view->profile_count];
    tsr_record(profile, report->profiles, i, sizeof *profile);
    if (profile->start_count > TESSERA_MAX_STARTS ||
        profile->compute_count > TESSERA_MAX_COMPUTE_PROFILES)
      return NVML_ERROR_UNKNOWN;
    for (uint32_t j = 0; j < profile->compute_count; j++)
      if (profile->computes[j].start_count > TESSERA_MAX_COMPUTE_STARTS) return NVML_ERROR_UNKNOWN;
    profile->name[sizeof profile->name - 1] = 0;
    view->profile_count++;
  }
  for (uint32_t i = 0; i < head->xid_count; i++) {
    tessera_xid_record *xid = &view->xids[view->xid_count];
    tsr_record(xid, report->xids, i, sizeof *xid);
    if (xid->gpu >= head->gpu_count) return NVML_ERROR_UNKNOWN;
    xid->gpu = gpus[xid->gpu];
    if (xid->instance != TESSERA_NO_RECORD && xid->instance >= head->instance_count)
      return NVML_ERROR_UNKNOWN;
    if (xid->instance != TESSERA_NO_RECORD) xid->instance += first;
    view->xid_count++;
  }
  view->driver_version = head->driver_version;
  memcpy(view->driver_release, head->driver_release, sizeof view->driver_release);
  return NVML_SUCCESS;
}

/* Sort the GPUs in the node's order; the slices' reports arrive in the order of the slices'
 * names. */
static void order_gpus(struct tsr_view *view) {
  uint32_t place[TESSERA_MAX_GPUS];
  tessera_gpu_record sorted[TESSERA_MAX_GPUS];
  for (uint32_t i = 0; i < view->gpu_count; i++) {
    place[i] = 0;
    for (uint32_t j = 0; j < view->gpu_count; j++)
      place[i] += view->gpus[j].index < view->gpus[i].index ||
                  (view->gpus[j].index == view->gpus[i].index && j < i);
    sorted[place[i]] = view->gpus[i];
  }
  memcpy(view->gpus, sorted, view->gpu_count * sizeof *sorted);
  for (uint32_t i = 0; i < view->instance_count; i++)
    view->instances[i].gpu = place[view->instances[i].gpu];
  for (uint32_t i = 0; i < view->xid_count; i++) view->xids[i].gpu = place[view->xids[i].gpu];
}

static bool is_before(const tessera_instance_record *a, const tessera_instance_record *b) {
  if (a->gpu != b->gpu) return a->gpu < b->gpu;
  return a->start != b->start ? a->start < b->start : a->compute_id < b->compute_id;
}

/* Sort the instances by GPU and placement. */
static nvmlReturn_t order_instances(struct tsr_view *view) {
  const uint32_t count = view->instance_count;
  if (count < 2) return NVML_SUCCESS;
  uint32_t *place = calloc(count, sizeof *place);
  tessera_instance_record *sorted = calloc(count, sizeof *sorted);
  if (!place || !sorted) {
    free(place);
    free(sorted);
    return NVML_ERROR_MEMORY;
  }
  for (uint32_t i = 0; i < count; i++) {
    for (uint32_t j = 0; j < count; j++)
      place[i] += is_before(&view->instances[j], &view->instances[i]) ||
                  (j < i && !is_before(&view->instances[i], &view->instances[j]));
    sorted[place[i]] = view->instances[i];
  }
  free(view->instances);
  view->instances = sorted;
  for (uint32_t i = 0; i < view->process_count; i++)
    view->processes[i].instance = place[view->processes[i].instance];
  for (uint32_t i = 0; i < view->xid_count; i++)
    if (view->xids[i].instance != TESSERA_NO_RECORD)
      view->xids[i].instance = place[view->xids[i].instance];
  free(place);
  return NVML_SUCCESS;
}

static nvmlReturn_t ask_one(const char *path, struct tsr_view *view, bool *absent) {
  tessera_management_request request;
  tsr_request_begin(&request, TESSERA_MANAGEMENT_OPERATION_REPORT);
  request.mode = TESSERA_REPORT_FLAG_PROFILES | TESSERA_REPORT_FLAG_RESERVED;
  struct tsr_report report;
  const nvmlReturn_t result = tsr_ask(path, &request, &report, absent);
  return result == NVML_SUCCESS ? take(view, &report) : result;
}

static nvmlReturn_t ask_slices(const struct tsr_sources *sources, struct tsr_view *view,
                               const char **absent) {
  static char path[TSR_SOCKET_PATH_BYTES];
  nvmlReturn_t why = NVML_ERROR_DRIVER_NOT_LOADED;
  bool any = false;
  for (int i = 0; i < sources->count; i++) {
    const int length = snprintf(path, sizeof path, "%s/%s/s.sock", tsr_config()->slices_dir,
                                sources->names[i].text);
    if (length < 0 || (size_t)length >= sizeof path) continue;
    bool is_absent;
    const nvmlReturn_t result = ask_one(path, view, &is_absent);
    if (result == NVML_SUCCESS)
      any = true; /* a slice whose gpud does not reply does not hide others */
    else if (result != NVML_ERROR_DRIVER_NOT_LOADED)
      why = result;
    if (is_absent && !any) *absent = path;
    if (result == NVML_ERROR_TIMEOUT) break; /* one gpud serves all slices */
  }
  return any ? NVML_SUCCESS : why;
}

nvmlReturn_t tsr_sources_ask(const struct tsr_sources *sources, struct tsr_view *view,
                             const char **absent) {
  memset(view, 0, sizeof *view);
  view->node = sources->node;
  nvmlReturn_t result;
  if (sources->node) {
    bool is_absent;
    result = ask_one(sources->management, view, &is_absent);
    if (is_absent) *absent = sources->management;
  } else {
    result = ask_slices(sources, view, absent);
  }
  if (result == NVML_SUCCESS) {
    order_gpus(view);
    result = order_instances(view);
  }
  if (result != NVML_SUCCESS) tsr_view_free(view);
  return result;
}
