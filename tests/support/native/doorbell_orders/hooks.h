/* Included before the engine's and the library's own sources: at each step that the other side
 * can observe, orders.c may run the other side first. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

void model_access(const volatile void *address);
void model_step(void);
int model_epoll_wait(int fd, struct epoll_event *events, int room, int limit_ms);
int model_clock(struct timespec *now);
int model_mask(void);
int model_thread(void *(*run)(void *), void *argument);

#define __atomic_load_n(at, order) (model_access(at), __atomic_load_n(at, order))
#define __atomic_store_n(at, value, order) (model_access(at), __atomic_store_n(at, value, order))
#define __atomic_exchange_n(at, value, order) \
  (model_access(at), __atomic_exchange_n(at, value, order))
#define __atomic_fetch_or(at, value, order) (model_access(at), __atomic_fetch_or(at, value, order))
#define read(...) (model_step(), read(__VA_ARGS__))
#define write(...) (model_step(), write(__VA_ARGS__))
#define epoll_wait model_epoll_wait
#define clock_gettime(clock, now) model_clock(now)
#define pthread_create(thread, attributes, run, argument) model_thread(run, argument)
#define sched_yield() (void)0
#define sigpending(set) sigemptyset(set) /* no SIGPIPE occurs here */
#define pthread_sigmask(how, set, before) ((void)(before), model_mask())
