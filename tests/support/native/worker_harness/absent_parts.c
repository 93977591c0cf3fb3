/* The worker's parts that its scheduler calls, for runs without kernels' code, lists, awaited values,
 * launches by kernels and an observer. */
#include "schedules.h"

#include "base/internal.h"

worker tw;
__thread thread_activity tw_current;

void tw_kernel_release(void) {}
int tw_fault_prepare_thread(void) { return 0; }
bool tw_value_reached(const tessera_slot *slot) { return slot != NULL; }
void tw_cta_end_thread(void) {}
void tw_chunks_lock(void) {}
void tw_chunks_unlock(void) {}
bool tw_chunks_cover_locked(uint64_t address, uint64_t bytes) { return address + bytes == 0; }
bool tw_observe(uint32_t index, const request *r) { return (void)index, r == NULL; }
void tw_observe_end(uint32_t index, const request *r) { (void)index, (void)r; }
bool tw_children_next(struct tw_children *of, request *r) { return of != NULL && r == NULL; }
bool tw_children_remain(const struct tw_children *of) { return of == NULL; }
void tw_children_free(struct tw_children *of) { (void)of; }

void tw_die(const fault *f) {
  end_run(f->message);
  for (;;) {
  }
}
