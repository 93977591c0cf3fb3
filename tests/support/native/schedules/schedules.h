/* Runs real C code under random schedules (random_schedules.c) or under all of them
 * (all_schedules.c). Every file of a program is compiled with `-include schedules.h`, which turns
 * threads into fibers of one thread: at each atomic access, each system call and each pause,
 * another thread may run for a while.
 *
 * Stores wait in a buffer of their thread, as in hardware: in order, up to a SEQ_CST store or
 * the next atomic change (x86); or in any order that release stores and fences permit (Arm).
 * Loads are performed at once.
 *
 * A program spawns its first threads in `begin`; one of them calls `end_run`. A run fails if all
 * threads sleep, or if it does not end. */
#ifndef SCHEDULES_H
#define SCHEDULES_H

#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Random schedules: `name [runs [first seed]]`; for exit status 1 the failed seed was printed.
 * All schedules: `name x86|arm[,apart][,switches=N] [argument...]`. `apart` gives each thread a
 * CPU, `switches` limits how often a thread that could continue is interrupted, and `runs` limits
 * the number of schedules. */
int run_schedules(int argc, char **argv, uint64_t runs, void (*begin)(void));
/* Ends the run; NULL: it succeeded. Does not return to a fiber. */
void end_run(const char *why);
/* Returns a number below `below`: a random one, or in turn each of them. */
uint64_t draw(uint64_t below);
uint64_t now_ns(void);
/* Only a wake ends a wait on that word: time limits, which could hide a missing wake, are
 * ignored. */
void ignore_time_limits(const uint32_t *word);
/* Memory that is zeroed at the beginning of each run. */
void *zeros_of_run(size_t bytes);
/* The same at the beginning of `room` bytes, of which the rest is never changed. */
void *zeros_of_run_in(size_t bytes, size_t room);
/* All schedules only: names the part of such memory that the program uses. */
void add_to_state(const void *place, size_t bytes);

void schedules_step(void);
void schedules_pause(void);
int schedules_cpu(void);
int schedules_clock(struct timespec *time);
int schedules_sleep(const struct timespec *duration);
int schedules_yield(void);
int schedules_create(pthread_t *thread, void *(*main)(void *), void *argument);
int schedules_join(pthread_t thread, bool limited);
int schedules_lock(pthread_mutex_t *mutex);
int schedules_unlock(pthread_mutex_t *mutex);
long schedules_futex(const uint32_t *word, int operation, uint32_t value,
                     const struct timespec *limit);
void schedules_load(const volatile void *place, void *value, size_t bytes, int order);
void schedules_store(volatile void *place, const void *value, size_t bytes, int order);
void schedules_change(const volatile void *place, int order);
void schedules_fence(int order);
bool schedules_spurious(bool weak);

#define BARE(place) __typeof__((void)0, *(place))
#define __atomic_load_n(place, order)                              \
  ({                                                               \
    BARE(place) loaded_;                                           \
    schedules_load((place), &loaded_, sizeof loaded_, (order));    \
    loaded_;                                                       \
  })
#define __atomic_store_n(place, value, order)                      \
  ({                                                               \
    BARE(place) stored_ = (value);                                 \
    schedules_store((place), &stored_, sizeof stored_, (order));   \
  })
#define __atomic_add_fetch(place, value, order) \
  (schedules_change((place), (order)), __atomic_add_fetch(place, value, order))
#define __atomic_sub_fetch(place, value, order) \
  (schedules_change((place), (order)), __atomic_sub_fetch(place, value, order))
#define __atomic_fetch_add(place, value, order) \
  (schedules_change((place), (order)), __atomic_fetch_add(place, value, order))
#define __atomic_fetch_sub(place, value, order) \
  (schedules_change((place), (order)), __atomic_fetch_sub(place, value, order))
#define __atomic_or_fetch(place, value, order) \
  (schedules_change((place), (order)), __atomic_or_fetch(place, value, order))
#define __atomic_and_fetch(place, value, order) \
  (schedules_change((place), (order)), __atomic_and_fetch(place, value, order))
#define __atomic_compare_exchange_n(place, expected, value, weak, order, failed) \
  (schedules_change((place), (order)),                                           \
   !schedules_spurious(weak) &&                                                  \
       __atomic_compare_exchange_n(place, expected, value, weak, order, failed))
#define __atomic_thread_fence(order) schedules_fence(order)
#undef atomic_load_explicit
#define atomic_load_explicit(place, order) __atomic_load_n(place, order)
#undef atomic_store_explicit
#define atomic_store_explicit(place, value, order) __atomic_store_n(place, value, order)
#undef atomic_fetch_add_explicit
#define atomic_fetch_add_explicit(place, value, order) __atomic_fetch_add(place, value, order)
#undef atomic_exchange
#define atomic_exchange(place, value)             \
  (schedules_change((place), __ATOMIC_SEQ_CST),   \
   __atomic_exchange_n(place, value, __ATOMIC_SEQ_CST))
#undef atomic_thread_fence
#define atomic_thread_fence(order) schedules_fence(order)

#define syscall(number, word, operation, value, limit, ...) \
  schedules_futex((word), (operation), (value), (limit))
#define clock_gettime(clock, time) schedules_clock(time)
#define nanosleep(duration, rest) schedules_sleep(duration)
#define sched_yield() schedules_yield()
#define sched_getcpu() schedules_cpu()
#define __builtin_ia32_pause() schedules_pause()
#define pthread_create(thread, attributes, main, argument) schedules_create(thread, main, argument)
#define pthread_join(thread, result) schedules_join(thread, false)
#define pthread_timedjoin_np(thread, result, until) ((void)(until), schedules_join(thread, true))
#define pthread_mutex_lock(mutex) schedules_lock(mutex)
#define pthread_mutex_unlock(mutex) schedules_unlock(mutex)

/* Thread-private data is contiguous, so that a switch exchanges it. */
#define __thread __attribute__((section("fiber_local")))
#define tls_model(model) unused

#endif
