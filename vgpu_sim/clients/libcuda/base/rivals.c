#define _GNU_SOURCE
#include "rivals.h"

#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* How the names of the libraries begin that have a counterpart here, and their folder. */
static const struct {
  const char *begin, *folder;
} counterparts[] = {
    {"libcublas", "math/"},   {"libcudnn", "math/"},    {"libcufft.so", "math/"},
    {"libcurand", "math/"},   {"libcusparse", "math/"}, {"libcusolver.so", "math/"},
    {"libnccl.so", "math/"},  {"libcupti.so", "math/"}, {"libcufile.so", "math/"},
    {"libnvshmem_host", "math/"}, {"libcudart.so", ""},
};

bool tsr_library_contains(const struct dl_phdr_info *library, uintptr_t address) {
  for (int i = 0; i < library->dlpi_phnum; i++) {
    const ElfW(Phdr) *part = &library->dlpi_phdr[i];
    const uintptr_t start = library->dlpi_addr + part->p_vaddr;
    if (part->p_type == PT_LOAD && address >= start && address - start < part->p_memsz) return true;
  }
  return false;
}

/* The folder of this library, with its slash. */
struct folder {
  char path[TSR_MAX_PATH_BYTES];
  size_t length;
};

static int look_for_own(struct dl_phdr_info *library, size_t size, void *state) {
  (void)size;
  struct folder *folder = state;
  const char *slash = strrchr(library->dlpi_name, '/');
  if (!slash || !tsr_library_contains(library, (uintptr_t)look_for_own)) return 0;
  const size_t length = (size_t)(slash + 1 - library->dlpi_name);
  if (length >= sizeof folder->path) return 1;
  memcpy(folder->path, library->dlpi_name, length);
  folder->path[length] = 0;
  folder->length = length;
  return 1;
}

struct search {
  const struct folder *folder;
  struct tsr_rival *rival;
};

static int look_for_rival(struct dl_phdr_info *library, size_t size, void *state) {
  (void)size;
  const struct search *search = state;
  const struct folder *folder = search->folder;
  const char *path = library->dlpi_name, *slash = strrchr(path, '/');
  if (!slash || strncmp(path, folder->path, folder->length) == 0) return 0;
  for (size_t i = 0; i < sizeof counterparts / sizeof *counterparts; ++i) {
    if (strncmp(slash + 1, counterparts[i].begin, strlen(counterparts[i].begin)) != 0) continue;
    struct tsr_rival *rival = search->rival;
    const int length = snprintf(rival->own, sizeof rival->own, "%s%s%s", folder->path,
                                counterparts[i].folder, slash + 1);
    if (length < 0 || (size_t)length >= sizeof rival->own || access(rival->own, R_OK) != 0) return 0;
    if (strlen(path) >= sizeof rival->path) return 0;
    strcpy(rival->path, path);
    return 1;
  }
  return 0;
}

bool tsr_find_rival(struct tsr_rival *rival) {
  struct folder folder = {.length = 0};
  dl_iterate_phdr(look_for_own, &folder);
  const struct search search = {&folder, rival};
  return folder.length != 0 && dl_iterate_phdr(look_for_rival, (void *)(uintptr_t)&search) != 0;
}
