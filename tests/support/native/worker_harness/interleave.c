/* Client library and worker exchange requests, naps and progress (libcuda: ring.c,
 * doorbell.c, wait.c; worker: ring.c, scheduler.c, leader.c, timeline.c) under random
 * schedules. A request that no thread runs while all are idle is a lost wake-up, and so is
 * progress during which a client sleeps. interleave_client.c contains the client's threads. */
#include "schedules.h"

#include "interleave.h"
#include "base/internal.h"

tessera_client_area *area;
tessera_worker_page *page;
struct nature natures[MOST_REQUESTS];

static const tessera_worker_kernel kernel = {.parameter_bytes = PARAMETER_BYTES};

const tessera_worker_kernel *tw_kernel_acquire(uint64_t handle) { return handle ? &kernel : NULL; }

bool tw_expect_short(const request *r) { return natures[r->slot.order].kind != LONG; }

static void compute(uint64_t most_ns) {
  nanosleep(&(struct timespec){.tv_nsec = (long)(1 + draw(most_ns))}, NULL);
}

void tw_execute(request *r) {
  const struct nature *n = &natures[r->slot.order];
  for (uint32_t i = 0; i < r->slot.wait_count; i++)
    if (page->timeline[r->slot.waits[i].stream] < r->slot.waits[i].value)
      end_run("a request runs before what it waits for");
  if (r->slot.opcode == TESSERA_OPCODE_LAUNCH &&
      r->parameters[PARAMETER_BYTES - 1] != (uint8_t)r->slot.value)
    end_run("a launch has other parameters");
  if (n->kind == LONG && draw(2)) compute(100000);
  if (n->kind != SHORT)
    while (__atomic_load_n(&page->timeline[n->awaited.stream], __ATOMIC_SEQ_CST) < n->awaited.value)
      compute(100000);
}

void stop_worker(void) {
  __atomic_store_n(&tw.stopping, 1, __ATOMIC_SEQ_CST);
  tw_runners_stop();
}

static void begin(void) {
  tw = (worker){.client = area, .page = page, .config = {.max_threads_per_block = 1024}};
  ignore_time_limits(&page->progress);
  start_clients();
  tw_scheduler_start();
}

int main(int argc, char **argv) {
  /* The rest of the area stays zero: no run uses other rings, or priorities. */
  area = zeros_of_run_in(offsetof(tessera_client_area, rings) + STREAMS * sizeof(tessera_ring),
                         sizeof *area);
  page = zeros_of_run(sizeof *page);
  return run_schedules(argc, argv, 6000, begin);
}
