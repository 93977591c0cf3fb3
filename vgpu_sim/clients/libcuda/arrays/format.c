#include "arrays/format.h"

#include "base/refuse.h"

static const uint8_t channel_bytes[] = {
    [TSR_FORMAT_U8] = 1, [TSR_FORMAT_U16] = 2, [TSR_FORMAT_U32] = 4, [TSR_FORMAT_S8] = 1,
    [TSR_FORMAT_S16] = 2, [TSR_FORMAT_S32] = 4, [TSR_FORMAT_F16] = 2, [TSR_FORMAT_F32] = 4,
};

static struct tsr_element make(enum tsr_format format, unsigned channels) {
  return (struct tsr_element){.format = format,
                              .channels = (uint8_t)channels,
                              .bytes = (uint8_t)(channels * channel_bytes[format])};
}

static CUresult refuse_format(void) {
  TSR_REFUSE("an array or texture of packed, normalized, planar or block-compressed elements");
}

/* Formats that CUDA has and that are not supported. */
static bool is_other_format(CUarray_format format) {
  enum { UNORM_INT_101010_2 = 0x50, FIRST_OTHER = 0x91 };
  return format == (CUarray_format)UNORM_INT_101010_2 ||
         ((unsigned)format >= FIRST_OTHER && format <= TSR_AD_FORMAT_LAST);
}

CUresult tsr_element_of(CUarray_format format, unsigned channels, struct tsr_element *element) {
  static const struct {
    CUarray_format given;
    enum tsr_format format;
  } formats[] = {
      {CU_AD_FORMAT_UNSIGNED_INT8, TSR_FORMAT_U8},   {CU_AD_FORMAT_UNSIGNED_INT16, TSR_FORMAT_U16},
      {CU_AD_FORMAT_UNSIGNED_INT32, TSR_FORMAT_U32}, {CU_AD_FORMAT_SIGNED_INT8, TSR_FORMAT_S8},
      {CU_AD_FORMAT_SIGNED_INT16, TSR_FORMAT_S16},   {CU_AD_FORMAT_SIGNED_INT32, TSR_FORMAT_S32},
      {CU_AD_FORMAT_HALF, TSR_FORMAT_F16},           {CU_AD_FORMAT_FLOAT, TSR_FORMAT_F32},
  };
  if (is_other_format(format)) return refuse_format();
  if (channels != 1 && channels != 2 && channels != 4) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    if (formats[i].given != format) continue;
    *element = make(formats[i].format, channels);
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

/* CUDA numbers them from 1 on, by format and then by 1, 2 or 4 channels. */
struct tsr_element tsr_element_of_view(CUresourceViewFormat format) {
  static const enum tsr_format formats[] = {TSR_FORMAT_U8,  TSR_FORMAT_S8,  TSR_FORMAT_U16,
                                            TSR_FORMAT_S16, TSR_FORMAT_U32, TSR_FORMAT_S32,
                                            TSR_FORMAT_F16, TSR_FORMAT_F32};
  const unsigned index = (unsigned)format - 1;
  return make(formats[index / 3], 1u << index % 3);
}

bool tsr_format_is_wide_integer(enum tsr_format format) {
  return format == TSR_FORMAT_U32 || format == TSR_FORMAT_S32;
}
