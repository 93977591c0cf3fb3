/* The model behind schedules.h: threads as fibers, and stores that are not yet visible. A policy
 * decides which fiber runs next: random_schedules.c or all_schedules.c. */
#ifndef SCHEDULES_MODEL_H
#define SCHEDULES_MODEL_H

#include "schedules.h"

#include <setjmp.h>
#include <ucontext.h>

enum { FIBERS = 64, STACK_BYTES = 1 << 16, BUFFER = 8, ZEROS = 8, NO_FIBER = FIBERS };

typedef struct store {
  volatile void *place;
  uint8_t value[8];
  uint32_t bytes, epoch;
  bool ordered, total; /* ordered: after all earlier stores; total: SEQ_CST */
} store;

typedef struct fiber {
  jmp_buf context;
  void *(*main)(void *);
  void *argument;
  const void *futex; /* NULL: it can run */
  uint64_t until_ns; /* time limit of a wait; 0: no limit */
  uint32_t alive, begun;
  store stores[BUFFER];
  uint32_t buffered, epoch;
  char *stack, *kept;
} fiber;

typedef struct model {
  fiber fibers[FIBERS];
  uint32_t count, running;
  ucontext_t outside;
  uint64_t now_ns;
  uint32_t buffered; /* stores of all fibers that are not yet visible */
  bool weak;         /* stores become visible as on Arm, not as on x86 */
  const uint32_t *unlimited;
  const char *failure;
  struct {
    void *memory;
    size_t bytes;
  } zeros[ZEROS];
  uint32_t zeros_count;
} model;

extern model *schedules_model; /* not among the variables that are restored before each run */

/* The program's variables, and among them those of the running thread. */
extern char __data_start[], _end[], __start_fiber_local[], __stop_fiber_local[];
#define LOCAL_BYTES ((size_t)(__stop_fiber_local - __start_fiber_local))
#define VARIABLE_BYTES ((size_t)(_end - __data_start))

fiber *running_fiber(void); /* NULL: no run is under way */
void resume_fiber(uint32_t next);
bool may_drain(const fiber *f, uint32_t index);
void drain(fiber *f, uint32_t index); /* make a store visible */

void prepare_runs(void);
/* Returns why the run failed, or NULL. */
const char *carry_out_run(void (*begin)(void));

/* The policy implements this, and of schedules.h draw, schedules_step, schedules_clock and
 * run_schedules. */
void switch_to_another(void); /* the running fiber cannot continue */
/* The running fiber is about to access the word at `place` (NULL: what others can see). Returns
 * false if no other thread can see the access, or be seen by it: then nothing else needs to run. */
bool step_at(const volatile void *place, bool writes);

#endif
