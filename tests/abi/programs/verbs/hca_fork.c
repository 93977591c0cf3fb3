/* Registered pages and child processes: prints what a child can read of the pages. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api.h"

struct ibv_device **ibv_get_device_list(int *count);
struct ibv_context *ibv_open_device(struct ibv_device *device);
struct ibv_pd *ibv_alloc_pd(struct ibv_context *context);
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access);
int ibv_dereg_mr(struct ibv_mr *mr);
int ibv_fork_init(void);
int ibv_is_fork_initialized(void);

enum { LOCAL_WRITE = 1, PAGE = 4096 };

/* Return 0 if a child of this process can read the address, else an errno value. */
static int in_child(const char *address) {
  const pid_t child = fork();
  if (child == 0) {
    int ends[2];
    if (pipe(ends) != 0) _exit(255);
    _exit(write(ends[1], address, 1) == 1 ? 0 : errno);
  }
  int status;
  waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

int main(int count, char **arguments) {
  (void)arguments;
  char *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  strcpy(pages, "mine");
  if (count > 1) printf("init %d again %d\n", ibv_fork_init(), ibv_fork_init());
  struct ibv_context *context = ibv_open_device(ibv_get_device_list(&count)[0]);
  struct ibv_mr *mr = ibv_reg_mr(ibv_alloc_pd(context), pages, PAGE, LOCAL_WRITE);
  printf("is %d late %d\n", ibv_is_fork_initialized(), ibv_fork_init());
  printf("registered %d beside %d", in_child(pages), in_child(pages + PAGE));
  printf(" parent %s\n", pages);
  ibv_dereg_mr(mr);
  printf("after %d %s\n", in_child(pages), pages);
  return 0;
}
