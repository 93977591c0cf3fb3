/* -q and -q -x. */
#define _GNU_SOURCE
#include "outputs/report.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "exits.h"
#include "nvml/nvml.h"
#include "outputs.h"
#include "version.h"

/* Names the figures that are modelled, not measured (docs/metrics.md), and which a reader could
   take for the node's own. */
#define MODELLED "clocks, power, temperature and performance state are modelled"

static void mig_device(const struct smi_gpu *gpu, const struct smi_mig_device *one, void *context) {
  (void)gpu;
  struct smi_document *document = context;
  const struct smi_gpu device = {.device = one->device};
  nvmlDeviceAttributes_t has;
  memset(&has, 0, sizeof has);
  nvml_DeviceGetAttributes_v2(one->device, &has);
  char text[SMI_TEXT_BYTES + 16];
#define NUMBER(label, tag, number)                 \
  snprintf(text, sizeof text, "%u", number);       \
  smi_document_value(document, label, tag, text)
#define VALUE(label, tag, ...)                                                \
  smi_read_with_unit(&device, &(const struct smi_reading){__VA_ARGS__}, text); \
  smi_document_value(document, label, tag, text)
  smi_document_open(document, "MIG Device", "mig_device");
  NUMBER("Index", "index", one->index);
  NUMBER("GPU Instance ID", "gpu_instance_id", one->gpu_instance_id);
  NUMBER("Compute Instance ID", "compute_instance_id", one->compute_instance_id);
  smi_document_open(document, "Device Attributes", "device_attributes");
  smi_document_open(document, "Shared", "shared");
  NUMBER("Multiprocessor count", "multiprocessor_count", has.multiprocessors);
  NUMBER("Copy Engine count", "copy_engine_count", has.copy_engines);
  NUMBER("Encoder count", "encoder_count", has.encoders);
  NUMBER("Decoder count", "decoder_count", has.decoders);
  NUMBER("OFA count", "ofa_count", has.ofas);
  NUMBER("JPG count", "jpg_count", has.jpegs);
  smi_document_close(document, "shared");
  smi_document_close(document, "device_attributes");
  smi_document_open(document, "ECC Errors", "ecc_error_count");
  smi_document_open(document, "Volatile", "volatile_count");
  VALUE("SRAM Uncorrectable", "sram_uncorrectable", smi_read_ecc_errors,
        SMI_ECC(NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC, NVML_MEMORY_LOCATION_SRAM),
        NULL);
  smi_document_close(document, "volatile_count");
  smi_document_close(document, "ecc_error_count");
  smi_document_open(document, "FB Memory Usage", "fb_memory_usage");
  VALUE("Total", "total", smi_read_memory, SMI_MEMORY_TOTAL, "MiB");
  VALUE("Reserved", "reserved", smi_read_memory, SMI_MEMORY_RESERVED, "MiB");
  VALUE("Used", "used", smi_read_memory, SMI_MEMORY_USED, "MiB");
  VALUE("Free", "free", smi_read_memory, SMI_MEMORY_FREE, "MiB");
  smi_document_close(document, "fb_memory_usage");
  smi_document_open(document, "BAR1 Memory Usage", "bar1_memory_usage");
  VALUE("Total", "total", smi_read_bar1, SMI_MEMORY_TOTAL, "MiB");
  VALUE("Used", "used", smi_read_bar1, SMI_MEMORY_USED, "MiB");
  VALUE("Free", "free", smi_read_bar1, SMI_MEMORY_FREE, "MiB");
  smi_document_close(document, "bar1_memory_usage");
  smi_document_close(document, "mig_device");
}

void smi_write_mig_devices(struct smi_document *document, const struct smi_gpu *gpu) {
  if (!smi_mig_devices(gpu, NULL, NULL)) {
    smi_document_none(document, gpu->mig_enabled ? "MIG Device" : NULL, "mig_devices");
    return;
  }
  smi_document_open(document, NULL, "mig_devices");
  smi_mig_devices(gpu, mig_device, document);
  if (document->xml) smi_document_close(document, "mig_devices");
}

static void instance(struct smi_document *document, const char *label, const char *tag,
                     unsigned id) {
  char text[16] = "N/A";
  if (id != NVML_UNKNOWN_ID) snprintf(text, sizeof text, "%u", id);
  smi_document_value(document, label, tag, text);
}

static void process(struct smi_document *document, const struct smi_process *one) {
  char text[512];
  smi_document_open(document, NULL, "process_info");
  instance(document, "GPU instance ID", "gpu_instance_id", one->gpu_instance_id);
  instance(document, "Compute instance ID", "compute_instance_id", one->compute_instance_id);
  snprintf(text, sizeof text, "%u", one->pid);
  smi_document_value(document, "Process ID", "pid", text);
  if (!document->xml) document->depth++;
  smi_document_value(document, "Type", "type",
                     one->type == '+' ? "C+G" : one->type == 'C' ? "C" : "G");
  smi_process_name(one->pid, text, sizeof text);
  smi_document_value(document, "Name", "process_name", text);
  snprintf(text, sizeof text, "%llu MiB", one->used_bytes >> 20);
  if (one->used_bytes == ~0ULL) strcpy(text, "N/A");
  smi_document_value(document, "Used GPU Memory", "used_memory", text);
  if (document->xml)
    smi_document_close(document, "process_info");
  else
    document->depth--;
}

void smi_write_processes(struct smi_document *document, const struct smi_gpu *gpu) {
  static struct smi_process list[SMI_MAX_PROCESSES];
  const unsigned count = smi_processes(gpu, list);
  if (!count && !document->xml) {
    smi_document_none(document, "Processes", NULL);
    return;
  }
  smi_document_open(document, "Processes", "processes");
  for (unsigned i = 0; i < count; i++) process(document, &list[i]);
  smi_document_close(document, "processes");
}

static void write_gpu(struct smi_document *document, const struct smi_gpu *gpu, unsigned sections) {
  const char *open[8];
  int depth = 0; /* of open groups */
  bool shown = true;
  char text[SMI_TEXT_BYTES + 16];
  for (unsigned i = 0; i < smi_row_count; i++) {
    const struct smi_row *row = &smi_rows[i];
    for (; depth > row->depth; depth--)
      if (shown) smi_document_close(document, open[depth - 1]);
    if (row->depth == 0) shown = !sections || (row->section & sections);
    if (row->group) open[depth++] = row->tag;
    if (!shown) continue;
    if (row->write) {
      row->write(document, gpu);
    } else if (row->group) {
      smi_document_open(document, row->label, row->tag);
    } else {
      smi_read_with_unit(gpu, &row->reading, text);
      smi_document_value(document, row->label, row->tag, text);
    }
  }
  for (; depth > 0; depth--)
    if (shown) smi_document_close(document, open[depth - 1]);
}

static void head(struct smi_document *document, const struct smi_gpus *gpus) {
  char now[64], text[SMI_TEXT_BYTES + 16];
  struct tm parts;
  const time_t seconds = time(NULL);
  localtime_r(&seconds, &parts);
  strftime(now, sizeof now, "%a %b %e %H:%M:%S %Y", &parts);
  if (document->xml)
    puts("<?xml version=\"1.0\" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v12.dtd\">\n"
         "<!-- Tessera-SMI " SMI_VERSION ": simulated GPUs; " MODELLED " -->");
  else
    puts("Tessera-SMI " SMI_VERSION ": simulated GPUs; " MODELLED
         "\n==============NVSMI LOG==============\n");
  if (document->xml) smi_document_open(document, NULL, "nvidia_smi_log");
  smi_document_value(document, "Timestamp", "timestamp", now);
  smi_read_with_unit(NULL, &(const struct smi_reading){smi_read_driver_version, 0, NULL}, text);
  smi_document_value(document, "Driver Version", "driver_version", text);
  smi_read_with_unit(NULL, &(const struct smi_reading){smi_read_cuda_version, 0, NULL}, text);
  smi_document_value(document, "CUDA Version", "cuda_version", text);
  if (!document->xml) putchar('\n');
  snprintf(text, sizeof text, "%u", gpus->attached);
  smi_document_value(document, "Attached GPUs", "attached_gpus", text);
}

int smi_query(const struct smi_gpus *gpus, bool xml, unsigned sections) {
  struct smi_document document = {.xml = xml};
  head(&document, gpus);
  for (unsigned i = 0; i < gpus->count; i++) {
    const struct smi_gpu *gpu = &gpus->list[i];
    if (xml)
      printf("\t<gpu id=\"%s\">\n", gpu->bus_id);
    else
      printf("GPU %s\n", gpu->bus_id);
    document.depth++;
    write_gpu(&document, gpu, sections);
    document.depth--;
    puts(xml ? "\t</gpu>" : "");
  }
  if (xml) puts("</nvidia_smi_log>");
  return SMI_EXIT_SUCCESS;
}
