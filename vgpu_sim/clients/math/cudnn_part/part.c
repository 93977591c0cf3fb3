/* A part of cuDNN, under the name by which programs load it. It has no function of its own: those
 * of all parts are in libcudnn.so.9, which this library needs, so that there is one set of handles. */
typedef int tsr_nothing;
