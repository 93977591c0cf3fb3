/* Types of computation, which cuBLAS and cuBLASLt share. */
#ifndef TSR_COMPUTE_H
#define TSR_COMPUTE_H

/* Return the type of the scales for a cublasComputeType_t, or -1 if there is no kernel for it. */
int tsr_scale_type_of(int compute);

#endif
