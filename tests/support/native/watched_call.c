// Calls a kernel's entry in this process, and returns even if a fault ends the call.
#include <fenv.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>

typedef void entry_function(const void *, const void *, uint64_t, uint64_t, void *);

static sigjmp_buf escape;
static volatile sig_atomic_t caught;
static volatile uintptr_t where;

static void on_fault(int number, siginfo_t *info, void *context) {
    (void)context;
    caught = number;
    where = (uintptr_t)info->si_addr;
    siglongjmp(escape, 1);
}

// Returns the fault's signal, or 0; `address` receives the address that caused the fault.
int watched_call(entry_function *entry, const void *launch, const void *parameters, uint64_t begin,
                 uint64_t end, void *state, uint64_t *address) {
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
    enum { COUNT = sizeof numbers / sizeof *numbers };
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, before[COUNT];
    fenv_t environment;

    caught = 0;
    fegetenv(&environment);  // after a fault the kernel's rounding mode and flags would remain
    for (int i = 0; i < COUNT; i++) sigaction(numbers[i], &action, &before[i]);
    if (!sigsetjmp(escape, 1)) entry(launch, parameters, begin, end, state);
    for (int i = 0; i < COUNT; i++) sigaction(numbers[i], &before[i], 0);
    fesetenv(&environment);
    *address = where;
    return caught;
}
