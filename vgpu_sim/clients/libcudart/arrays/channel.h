/* Formats of channels, as the driver numbers them. */
#ifndef TSR_CHANNEL_H
#define TSR_CHANNEL_H

#include "runtime_types.h"

/* Translate a format; the driver checks the number of channels. */
cudaError_t tsr_format_of(const struct cudaChannelFormatDesc *channels, int *format,
                          unsigned int *count);

/* The opposite, for a format that the driver returned. */
struct cudaChannelFormatDesc tsr_channels_of(int format, unsigned int count);

#endif
