/* Client library and worker exchange requests under all schedules of a small instance: ring,
 * doorbell, the worker's sleep and the client's (libcuda: ring.c, doorbell.c, wait.c; worker:
 * ring.c, scheduler.c, leader.c, timeline.c). A schedule in which all sleep although the client has
 * sent a request, or waits for one that is done, is a lost wake-up.
 *
 * Arguments: x86 or arm; the worker's runners; for each thread of the client what it does: `0` or
 * `1` sends a short request in that stream, `a` or `b` a long one in stream 0 or 1, `w` waits for
 * everything. */
#include "schedules.h"

#include <stdlib.h>

#include "all_orders.h"
#include "base/internal.h"

tessera_client_area *area;
tessera_worker_page *page;
bool is_long[MOST_REQUESTS];
static uint32_t runners;

const tessera_worker_kernel *tw_kernel_acquire(uint64_t handle) { return (void)handle, NULL; }
bool tw_expect_short(const request *r) { return !is_long[r->slot.order]; }
void tw_execute(request *r) {
  for (uint32_t i = 0; i < r->slot.wait_count; i++)
    if (page->timeline[r->slot.waits[i].stream] < r->slot.waits[i].value)
      end_run("a request runs before what it waits for");
}

static void begin(void) {
  tw = (worker){.client = area, .page = page, .config = {.runners = runners}};
  ignore_time_limits(&page->progress);
  start_clients();
  tw_scheduler_start();
}

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  runners = (uint32_t)atoi(argv[2]);
  scripts = argv + 3;
  /* The rest of the area stays zero: no run uses other rings, or priorities. */
  area = zeros_of_run_in(offsetof(tessera_client_area, rings) + STREAMS * sizeof(tessera_ring),
                         sizeof *area);
  page = zeros_of_run(sizeof *page);
  add_to_state(area, offsetof(tessera_client_area, rings));
  for (uint32_t i = 0; i < STREAMS; i++)
    add_to_state(&area->rings[i], TESSERA_SLOTS_PER_STREAM * TESSERA_SLOT_BYTES);
  add_to_state(page, offsetof(tessera_worker_page, timestamps));
  return run_schedules(argc, argv, UINT64_MAX, begin);
}
