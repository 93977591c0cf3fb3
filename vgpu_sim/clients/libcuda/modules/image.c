#define _GNU_SOURCE
#include "modules/image.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log.h"
#include "tessera_abi.h"
#include "unsupported.h"

/* A container of Tessera's ISA: vgpu_sim/isa/sections.py. */
static const char container_magic[8] = {'\x89', 'T', 'I', 'S', 'A', '\r', '\n', '\x1a'};
/* measure examines at most this many bytes. */
enum { CONTAINER_SIZE_OFFSET = 32, IMAGE_PADDING_BYTES = 64 };

/* The multiple to which ptxas rounds a limit for sm_70 and later, and the maximum of a thread. */
enum { FEWEST_REGISTERS = 24, MOST_REGISTERS = 255 };

/* Formats that toolkits generate for hardware. */
enum { ELF_MAGIC = 0x464c457f };
enum { ELF_MACHINE_OFFSET = 18, ELF_VERSION_OFFSET = 6, MACHINE_CUDA = 190 };

/* A fat binary begins with this header; `bytes` follow it. */
struct fat_binary {
  uint32_t magic;
  uint16_t version, header_bytes;
  uint64_t bytes;
};
enum { FAT_BINARY_MAGIC = 0xba55ed50u, WRAPPER_MAGIC = 0x466243b1u };

/* What toolkits pass to register a fat binary: a pointer to it. */
struct wrapper {
  uint32_t magic, version;
  const void *fat_binary;
  const void *others; /* version 2: the fat binaries that were linked into this one */
};

static uint32_t magic_of(const void *image) {
  /* Texts end with a NUL, so a comparison does not read past their ends. */
  uint32_t magic = 0;
  for (unsigned i = 0; i < sizeof magic; i++) {
    const uint32_t byte = ((const unsigned char *)image)[i];
    if (byte == 0) return 0;
    magic |= byte << 8 * i;
  }
  return magic;
}

static CUresult measure_elf(const unsigned char *elf, const char **why) {
  const int whole = elf[4] && elf[5] && elf[ELF_VERSION_OFFSET] == 1;
  if (!whole || elf[ELF_MACHINE_OFFSET] + (elf[ELF_MACHINE_OFFSET + 1] << 8) != MACHINE_CUDA) {
    *why = "the image is a program or library of the host, not GPU code";
    return CUDA_ERROR_INVALID_IMAGE;
  }
  *why = "the image is a cubin (machine code of other hardware): " TESSERA_NO_PTX_REMEDY;
  return CUDA_ERROR_NO_BINARY_FOR_GPU;
}

/* Skip white space and comments, as PTX has them; NULL: a comment does not end. */
static const char *skip_blanks(const char *at, const char *end) {
  while (at < end) {
    if (strchr(" \t\n\v\f\r", *at)) {
      at++;
    } else if (end - at > 1 && at[0] == '/' && at[1] == '/') {
      at = memchr(at, '\n', (size_t)(end - at));
      if (!at) return NULL;
    } else if (end - at > 1 && at[0] == '/' && at[1] == '*') {
      at = memmem(at + 2, (size_t)(end - at - 2), "*/", 2);
      if (!at) return NULL;
      at += 2;
    } else {
      break;
    }
  }
  return at;
}

/* Whether an image without the magic number of a format is PTX. NVIDIA's driver, too, recognises PTX
 * by its first directive, and calls any other text an invalid image, not invalid PTX. */
static bool is_ptx(const char *text, size_t bytes) {
  static const char directive[] = ".version";
  const char *end = text + bytes, *first = skip_blanks(text, end);
  return first && (size_t)(end - first) >= sizeof directive - 1 &&
         memcmp(first, directive, sizeof directive - 1) == 0;
}

static CUresult measure(const void **image, size_t room, size_t *bytes, const char **why) {
  *why = NULL;
  if (room == TSR_IMAGE_IN_MEMORY && magic_of(*image) == WRAPPER_MAGIC) {
    struct wrapper wrapper;
    memcpy(&wrapper, *image, sizeof wrapper);
    *image = wrapper.fat_binary;
    if (!*image) return CUDA_ERROR_INVALID_IMAGE;
  }
  *bytes = 0;
  const uint32_t magic = magic_of(*image);
  if (magic == ELF_MAGIC) return measure_elf(*image, why);
  if (magic == FAT_BINARY_MAGIC) {
    struct fat_binary header;
    memcpy(&header, *image, sizeof header);
    if (header.bytes <= TESSERA_MAX_IMAGE_BYTES) *bytes = header.header_bytes + header.bytes;
  } else if (strncmp(*image, container_magic, sizeof container_magic) == 0) {
    uint64_t size;
    memcpy(&size, (const char *)*image + CONTAINER_SIZE_OFFSET, sizeof size);
    *bytes = size;
  } else {
    const size_t most = TESSERA_MAX_IMAGE_BYTES + 1;
    *bytes = strnlen(*image, room < most ? room : most);
    if (*bytes && *bytes < most && !is_ptx(*image, *bytes)) {
      *why = "the image is neither PTX, which begins with .version, nor a fat binary";
      return CUDA_ERROR_INVALID_IMAGE;
    }
  }
  if (*bytes == 0 || *bytes > TESSERA_MAX_IMAGE_BYTES) {
    *why = "the image is empty or larger than 64 MiB";
    return CUDA_ERROR_INVALID_IMAGE;
  }
  if (*bytes > room) {
    *why = "the file ends before the image in it";
    return CUDA_ERROR_INVALID_IMAGE;
  }
  return CUDA_SUCCESS;
}

CUresult tsr_image_check(const void **image, size_t room, size_t *bytes,
                         const struct tsr_log_buffers *logs) {
  const char *why;
  const CUresult result = measure(image, room, bytes, &why);
  if (result == CUDA_SUCCESS) return result;
  if (!why) why = "the image is a wrapper without a fat binary";
  tsr_log_buffers_fill(logs, result, why, strlen(why));
  tsr_log("%s", why);
  tsr_image_refused();
  return result;
}

void tsr_image_refused(void) { tsr_end_if_strict("an image", "was refused"); }

char *tsr_image_read(const char *path, size_t *bytes) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return NULL;
  const off_t size = lseek(fd, 0, SEEK_END);
  char *data = NULL;
  if (size >= 0 && size <= (off_t)TESSERA_MAX_IMAGE_BYTES)
    data = calloc(1, (size_t)size + IMAGE_PADDING_BYTES);
  off_t got = 0;
  while (data && got < size) {
    const ssize_t more = pread(fd, data + got, (size_t)(size - got), got);
    if (more <= 0) {
      free(data);
      data = NULL;
      break;
    }
    got += more;
  }
  close(fd);
  *bytes = (size_t)size;
  return data;
}

void tsr_log_buffers_read(struct tsr_log_buffers *buffers, unsigned count,
                          const CUjit_option *options, void **values) {
  *buffers = (struct tsr_log_buffers){0};
  for (unsigned i = 0; i < count; i++) {
    const unsigned number = (unsigned)(uintptr_t)values[i];
    switch (options[i]) {
      case CU_JIT_MAX_REGISTERS:
        buffers->max_registers = number <= MOST_REGISTERS ? number : 0;
        if (number > 0 && number < FEWEST_REGISTERS) buffers->max_registers = FEWEST_REGISTERS;
        break;
      case CU_JIT_ERROR_LOG_BUFFER:
        buffers->error = values[i];
        break;
      case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
        buffers->error_bytes = (unsigned)(uintptr_t)values[i];
        buffers->error_bytes_out = &values[i];
        break;
      case CU_JIT_INFO_LOG_BUFFER:
        buffers->info = values[i];
        break;
      case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
        buffers->info_bytes = (unsigned)(uintptr_t)values[i];
        buffers->info_bytes_out = &values[i];
        break;
      default: /* optimisation levels, line information: hints to a compiler */
        break;
    }
  }
}

static void fill(char *buffer, size_t room, void **bytes_out, const char *log, size_t bytes) {
  size_t copied = 0;
  if (buffer && room > 0) {
    copied = bytes < room - 1 ? bytes : room - 1;
    if (copied) memcpy(buffer, log, copied);
    buffer[copied] = 0;
  }
  if (bytes_out) *bytes_out = (void *)(uintptr_t)copied;
}

void tsr_log_buffers_fill(const struct tsr_log_buffers *buffers, CUresult result, const char *log,
                          size_t bytes) {
  const size_t errors = result == CUDA_SUCCESS ? 0 : bytes;
  fill(buffers->error, buffers->error_bytes, buffers->error_bytes_out, log, errors);
  fill(buffers->info, buffers->info_bytes, buffers->info_bytes_out, log, bytes - errors);
}
