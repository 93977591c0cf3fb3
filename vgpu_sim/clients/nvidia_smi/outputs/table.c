/* The summary of GPUs, MIG devices and processes, in the column positions that programs parse. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "exits.h"
#include "nvml/nvml.h"
#include "outputs.h"
#include "readings/readings.h"
#include "version.h"

static const char RULE[] =
    "+-----------------------------------------------------------------------------------------+";
enum { INNER = sizeof RULE - 3 };

static void boxed(const char *text) { printf("|%-*.*s|\n", INNER, INNER, text); }

/* Write a reading followed directly by its unit, as "33C", truncated to its cell. */
static const char *cell(const struct smi_gpu *gpu,
                        void (*read)(const struct smi_gpu *, int, struct smi_text *), int argument,
                        const char *unit, char out[SMI_TEXT_BYTES + 8]) {
  struct smi_text text = {.status = NVML_SUCCESS};
  read(gpu, argument, &text);
  if (text.status == NVML_SUCCESS)
    snprintf(out, SMI_TEXT_BYTES + 8, "%s%s", text.value, unit);
  else
    snprintf(out, SMI_TEXT_BYTES + 8, "%s", text.status == NVML_ERROR_GPU_IS_LOST ? "ERR!" : "N/A");
  return out;
}

/* Write watts without a fraction. */
static const char *watts(const struct smi_gpu *gpu, int which, char out[SMI_TEXT_BYTES + 8]) {
  cell(gpu, smi_read_power, which, "", out);
  char *point = strchr(out, '.');
  if (point) memcpy(point, "W", 2);
  return out;
}

static void head(void) {
  char line[256], now[64];
  struct smi_text driver = {.status = 0}, cuda = {.status = 0};
  struct tm parts;
  const time_t seconds = time(NULL);
  localtime_r(&seconds, &parts);
  strftime(now, sizeof now, "%a %b %e %H:%M:%S %Y", &parts);
  smi_read_driver_version(NULL, 0, &driver);
  smi_read_cuda_version(NULL, 0, &cuda);
  snprintf(line, sizeof line,
           " Tessera-SMI %-10s (nvidia-smi)  Driver Version: %-14s CUDA Version: %-9s", SMI_VERSION,
           smi_text_shown(&driver), smi_text_shown(&cuda));
  printf("%s       \n%s\n", now, RULE);
  boxed(line);
  puts("|-----------------------------------------+------------------------+----------------------+\n"
       "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |\n"
       "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |\n"
       "|                                         |                        |               MIG M. |\n"
       "|=========================================+========================+======================|");
}

static void gpu_rows(const struct smi_gpu *gpu) {
  char a[SMI_TEXT_BYTES + 8], b[SMI_TEXT_BYTES + 8], c[SMI_TEXT_BYTES + 8], d[SMI_TEXT_BYTES + 8],
      e[SMI_TEXT_BYTES + 8], name[SMI_TEXT_BYTES + 8];
  int on = 0, shown = 0;
  nvml_DeviceGetPersistenceMode(gpu->device, &on);
  nvml_DeviceGetDisplayActive(gpu->device, &shown);
  cell(gpu, smi_read_name, 0, "", name);
  if (strlen(name) > 30) memcpy(name + 27, "...", 4);
  if (gpu->mig_enabled)
    strcpy(a, "On");
  else
    cell(gpu, smi_read_ecc_errors,
         SMI_ECC(NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC, 0), "", a);
  printf("|%4u  %-30.30s%3s  |   %-16.16s %3s |%21.21s |\n", gpu->index, name, on ? "On" : "Off",
         gpu->bus_id, shown ? "On" : "Off", a);
  printf("| %3.3s%6.6s%6.6s%16.16s / %5.5s ", cell(gpu, smi_read_fan, 0, "%", a),
         cell(gpu, smi_read_temperature, NVML_TEMPERATURE_GPU, "C", b),
         cell(gpu, smi_read_performance_state, 0, "", c), watts(gpu, SMI_POWER_DRAW, d),
         watts(gpu, SMI_POWER_LIMIT, e));
  printf("|%11.11s / %9.9s |%8.8s %12.12s |\n",
         cell(gpu, smi_read_memory, SMI_MEMORY_USED, "MiB", a),
         cell(gpu, smi_read_memory, SMI_MEMORY_TOTAL, "MiB", b),
         cell(gpu, smi_read_utilization, SMI_UTILIZATION_GPU, "%", c),
         cell(gpu, smi_read_compute_mode, 0, "", d));
  printf("|%41s|%24s|%21.21s |\n", "", "", cell(gpu, smi_read_mig_mode, 0, "", a));
  puts("+-----------------------------------------+------------------------+----------------------+");
}

static void mig_row(const struct smi_gpu *gpu, const struct smi_mig_device *one, void *context) {
  (void)context;
  static const char RULE_MIG[] =
      "+------------------+----------------------------------+-----------+-----------------------+";
  const struct smi_gpu device = {.device = one->device};
  nvmlDeviceAttributes_t has;
  memset(&has, 0, sizeof has);
  nvml_DeviceGetAttributes_v2(one->device, &has);
  char a[SMI_TEXT_BYTES + 8], b[SMI_TEXT_BYTES + 8], c[SMI_TEXT_BYTES + 8];
  printf("|%3u  %3u %3u %3u  |%19.19s / %-12.12s|%3u %6.6s |%3u %3u  %3u  %3u  %3u |\n", gpu->index,
         one->gpu_instance_id, one->compute_instance_id, one->index,
         cell(&device, smi_read_memory, SMI_MEMORY_USED, "MiB", a),
         cell(&device, smi_read_memory, SMI_MEMORY_TOTAL, "MiB", b), has.multiprocessors,
         cell(&device, smi_read_ecc_errors,
              SMI_ECC(NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC, 0), "", c),
         has.copy_engines, has.encoders, has.decoders, has.ofas, has.jpegs);
  printf("|%18s|%19.19s / %-12.12s|%11s|%23s|\n%s\n", "",
         cell(&device, smi_read_bar1, SMI_MEMORY_USED, "MiB", a),
         cell(&device, smi_read_bar1, SMI_MEMORY_TOTAL, "MiB", b), "", "", RULE_MIG);
}

static void mig_table(const struct smi_gpus *gpus) {
  unsigned enabled = 0, devices = 0;
  for (unsigned i = 0; i < gpus->count; i++) {
    enabled += gpus->list[i].mig_enabled;
    devices += smi_mig_devices(&gpus->list[i], NULL, NULL);
  }
  if (!enabled) return;
  printf("%*s\n%s\n", INNER + 2, "", RULE);
  boxed(" MIG devices:");
  if (!devices) {
    putchar('|');
    for (int i = 0; i < INNER; i++) putchar('=');
    puts("|");
    boxed("  No MIG devices found");
    puts(RULE);
    return;
  }
  puts("+------------------+----------------------------------+-----------+-----------------------+\n"
       "| GPU  GI  CI  MIG |                     Memory-Usage |        Vol|        Shared         |\n"
       "|      ID  ID  Dev |                       BAR1-Usage | SM     Unc| CE ENC  DEC  OFA  JPG |\n"
       "|                  |                                  |        ECC|                       |\n"
       "|==================+==================================+===========+=======================|");
  for (unsigned i = 0; i < gpus->count; i++) smi_mig_devices(&gpus->list[i], mig_row, NULL);
}

static void process_row(const struct smi_gpu *gpu, const struct smi_process *process) {
  char gi[16] = "N/A", ci[16] = "N/A", name[512], memory[32] = "N/A";
  if (process->gpu_instance_id != NVML_UNKNOWN_ID) {
    snprintf(gi, sizeof gi, "%u", process->gpu_instance_id);
    snprintf(ci, sizeof ci, "%u", process->compute_instance_id);
  }
  smi_process_name(process->pid, name, sizeof name);
  const size_t length = strlen(name); /* the end of a path is its most informative part */
  if (length > 33) {
    memmove(name + 3, name + length - 30, 31);
    memcpy(name, "...", 3);
  }
  if (process->used_bytes != ~0ULL)
    snprintf(memory, sizeof memory, "%lluMiB", process->used_bytes >> 20);
  printf("|%5u   %3.3s  %3.3s  %14u   %4s   %-35.35s %10.10s |\n", gpu->index, gi, ci, process->pid,
         process->type == '+' ? "C+G" : (char[]){process->type, 0}, name, memory);
}

static void process_table(const struct smi_gpus *gpus) {
  static struct smi_process list[SMI_MAX_PROCESSES];
  unsigned found = 0;
  printf("%*s\n%s\n", INNER + 2, "", RULE);
  puts("| Processes:                                                                              |\n"
       "|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |\n"
       "|        ID   ID                                                               Usage      |\n"
       "|=========================================================================================|");
  for (unsigned i = 0; i < gpus->count; i++) {
    const unsigned count = smi_processes(&gpus->list[i], list);
    for (unsigned k = 0; k < count; k++) process_row(&gpus->list[i], &list[k]);
    found += count;
  }
  if (!found) boxed("  No running processes found");
  puts(RULE);
}

int smi_summary(const struct smi_gpus *gpus) {
  head();
  for (unsigned i = 0; i < gpus->count; i++) gpu_rows(&gpus->list[i]);
  mig_table(gpus);
  process_table(gpus);
  return SMI_EXIT_SUCCESS;
}
