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

worker tw;
__thread thread_activity tw_current;
tessera_client_area *area;
tessera_worker_page *page;
bool is_long[MOST_REQUESTS];
static uint32_t runners;

const tessera_worker_kernel *tw_kernel_acquire(uint64_t handle) { return (void)handle, NULL; }
void tw_kernel_release(void) {}
int tw_fault_prepare_thread(void) { return 0; }
bool tw_value_reached(const tessera_slot *slot) { return slot != NULL; }
void tw_cta_end_thread(void) {}
void tw_chunks_lock(void) {} /* there are no lists */
void tw_chunks_unlock(void) {}
bool tw_chunks_cover_locked(uint64_t address, uint64_t bytes) { return address + bytes == 0; }
bool tw_expect_short(const request *r) { return !is_long[r->slot.order]; }
bool tw_observe(uint32_t index, const request *r) { return (void)index, r == NULL; }
void tw_observe_end(uint32_t index, const request *r) { (void)index, (void)r; }

void tw_die(const fault *f) {
  end_run(f->message);
  for (;;) {
  }
}

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
