#define _GNU_SOURCE
#include "memory/own_stack.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "tessera_rdma_abi.h"

#define PAGE TESSERA_HCA_PAGE_BYTES

enum {
  STACK_BYTES = 64 << 10,
  /* struct pthread of glibc 2.17 to 2.41 has between 1,800 and 2,400 bytes; the word that
   * pthread_join() waits for is in its first half. */
  CONTROL_BLOCK_BYTES = 2048,
  KERNEL_SIGNALS = 8, /* bytes of the kernel's signal set */
};

struct errand {
  void (*work)(void *);
  void *argument;
};

/* makecontext() passes int arguments only. */
static void enter(unsigned high, unsigned low) {
  const struct errand *errand =
      (const struct errand *)(uintptr_t)((uint64_t)high << 32 | low); /* it is on the old stack */
  errand->work(errand->argument);
}

int tsr_on_own_stack(void (*work)(void *argument), void *argument) {
  uint8_t *stack = mmap(NULL, PAGE + STACK_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (stack == MAP_FAILED) return errno;
  mprotect(stack, PAGE, PROT_NONE);
  /* Not pthread_sigmask(), which does not block the signals that glibc sends to its own threads. */
  uint64_t all = ~UINT64_C(0), before = 0;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, KERNEL_SIGNALS);
  struct errand errand = {work, argument};
  ucontext_t here, there;
  int error = getcontext(&there) == 0 ? 0 : errno;
  if (error == 0) {
    there.uc_stack = (stack_t){.ss_sp = stack + PAGE, .ss_size = STACK_BYTES};
    there.uc_link = &here;
    const uint64_t address = (uintptr_t)&errand;
    makecontext(&there, (void (*)(void))enter, 2, (unsigned)(address >> 32), (unsigned)address);
    /* `here` is written before the stack switch, and read after the switch back. */
    error = swapcontext(&here, &there) == 0 ? 0 : errno;
  }
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, KERNEL_SIGNALS);
  munmap(stack, PAGE + STACK_BYTES);
  return error;
}

void tsr_keep_growing(uint64_t from) {
  /* The kernel reads a signal set from the page before it rejects the operation; that makes the
   * stack grow. Where nothing can grow, the call fails, whereas reading the page in this thread
   * would crash the thread. */
  enum { NO_SUCH_OPERATION = -1 };
  if (from >= PAGE)
    syscall(SYS_rt_sigprocmask, NO_SUCH_OPERATION, (void *)(uintptr_t)(from - PAGE), NULL,
            KERNEL_SIGNALS);
}

bool tsr_has_control_block(uint64_t from, uint64_t to) {
  const uint64_t block = (uintptr_t)pthread_self();
  return block < to && from < block + CONTROL_BLOCK_BYTES;
}
