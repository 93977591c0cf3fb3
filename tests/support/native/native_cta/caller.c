/* Calls compiled kernels as the worker's pool does, through the worker's own files, in a
 * process without the rest of the worker. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/internal.h"

__thread thread_activity tw_current;
static jmp_buf trapped;

void tw_die(const fault *f) {
  fprintf(stderr, "the worker would die: %s\n", f->message);
  _exit(3);
}

void tw_die_of_trap(uint64_t kernel, uint64_t code, const tessera_thread_state *state,
                    const char *message) {
  (void)kernel, (void)code, (void)message;
  tw_current.state = *state;
  if (state->status == 0) tw_current.state.status = CUDA_ERROR_LAUNCH_FAILED;
  longjmp(trapped, 1);
}

bool tw_pool_claim(uint64_t *first, uint64_t *end) {
  (void)first, (void)end;
  return false; /* the caller passes all blocks at once */
}

static struct sigaction before;

/* Map what the kernel has accessed, as the worker does, or let the access fault again. */
static void on_fault(int number, siginfo_t *info, void *context) {
  (void)context;
  if (tw_current.map_accessed == NULL || !tw_current.map_accessed((uint64_t)(uintptr_t)info->si_addr))
    sigaction(number, &before, NULL);
}

static void run_clusters(const tw_launch *launch, const uint8_t *parameters, uint64_t first,
                         uint64_t end, tessera_thread_state *state) {
  const struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  sigaction(SIGSEGV, &action, &before);
  tw_clusters_run(&launch->context, parameters, first, end, state);
  sigaction(SIGSEGV, &before, NULL);
}

__attribute__((visibility("default"))) void call_blocks(const tw_launch *launch,
                                                        const uint8_t *parameters, uint64_t first,
                                                        uint64_t end,
                                                        tessera_thread_state *state) {
  if (setjmp(trapped) == 0) {
    if (launch->context.cluster_step != 0)
      run_clusters(launch, parameters, first, end, state);
    else if (launch->code.groups != 0)
      tw_cta_run((tw_launch *)(uintptr_t)launch, &launch->code, parameters, first, end);
    else
      tw_shared_run(launch, &launch->code, parameters, first, end, state);
    state->current_block = end - 1;
  } else {
    *state = tw_current.state;
    tw_cta_end_thread();
  }
}

/* After a fault that another handler caught: the fault's block is abandoned. */
__attribute__((visibility("default"))) void abandon_blocks(void) { tw_cta_end_thread(); }
