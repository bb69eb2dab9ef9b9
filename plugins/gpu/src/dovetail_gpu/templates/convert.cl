// Converts FROM to TO. Halves are read and written through float.

#if defined(FROM_HALF)
#define GET(p, i) vload_half(i, p)
#else
#define GET(p, i) ((p)[i])
#endif

#if defined(TO_HALF)
#define PUT(v, p, i) vstore_half_rte((float)(v), i, p)
#else
#define PUT(v, p, i) ((p)[i] = (TO)(v))
#endif

__kernel void convert(TENSOR_IN(FROM, x), TENSOR_OUT(TO, y), int count) {
  TENSOR_READ(FROM, x);
  TENSOR_WRITE(TO, y);
  const int i = get_global_id(0);
  if (i < count) PUT(GET(x, i), y, i);
}
