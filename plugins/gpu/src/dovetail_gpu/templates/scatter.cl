// Updates of slices by index. Follows box.cl and counted.cl. Update i is for the slice TARGET(i) of
// `inner` elements. BY_ELEMENT: `axes` are those of the updates, with a step of 0 along the indexed
// one, whose size and step are `size` and `stride`; else they are the sizes of the indexed axes.

#define TARGET_PARAMETERS                                                                         \
  TENSOR_IN(int, index), TENSOR_IN(int, axes), int depth, int size, int stride, int updates,      \
      int inner
#define TARGET_READ         \
  TENSOR_READ(int, index);  \
  TENSOR_READ(int, axes)

#if BY_ELEMENT
#define TARGET(i) (position(axes, depth, i, 0, 0).x + counted(index[i], size) * stride)
#else
#define TARGET(i) selected(index + (i) * depth, axes, depth)
#endif

#if !defined(COMBINE)
__kernel void clear(TENSOR_OUT(int, last), int slices) {
  TENSOR_WRITE(int, last);
  const int i = get_global_id(0);
  if (i < slices) last[i] = 0;
}

// last[s] = 1 + the last update of slice s
__kernel void claim(TENSOR_OUT(int, last), TARGET_PARAMETERS) {
  TENSOR_WRITE(int, last);
  TARGET_READ;
  const int i = get_global_id(0);
  if (i < updates) atomic_max(last + TARGET(i), i + 1);
}

__kernel void replace(TENSOR_IN(int, last), TENSOR_IN(S, x), TENSOR_OUT(S, y), TARGET_PARAMETERS) {
  TENSOR_READ(int, last);
  TENSOR_READ(S, x);
  TENSOR_WRITE(S, y);
  TARGET_READ;
  const int i = get_global_id(0);
  if (i >= updates) return;
  const int target = TARGET(i);
  if (last[target] == i + 1)
    for (int j = 0; j < inner; j++) y[target * inner + j] = x[i * inner + j];
}

#else
// One work item for each element of a slice, so that updates of an element are in their order.
__kernel void combine(TENSOR_IN(S, x), TENSOR_OUT(S, y), TARGET_PARAMETERS) {
  TENSOR_READ(S, x);
  TENSOR_WRITE(S, y);
  TARGET_READ;
  const int j = get_global_id(0);
  if (j >= inner) return;
  for (int i = 0; i < updates; i++) {
    __global S *to = y + (TARGET(i) * inner + j);
    const ACCUMULATOR a = LOAD(to), b = LOAD(x + (i * inner + j));
    STORE(COMBINE(a, b), to);
  }
}
#endif
