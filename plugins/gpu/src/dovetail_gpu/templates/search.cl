// The index of the first extreme element along the middle axis of (outer, size, inner), or of the
// first NaN. BETTER(a, b) compares numbers, and Y is the type of indices.

#define IS_BETTER(e, best) (BETTER(e, best) || ((e) != (e) && (best) == (best)))
#if defined(Y_HALF)
#define PUT(v) vstore_half_rte((float)(v), 0, y + row)
#else
#define PUT(v) y[row] = (Y)(v)
#endif

__kernel void search(TENSOR_IN(S, x), TENSOR_OUT(Y, y), int size, int inner) {
  TENSOR_READ(S, x);
  TENSOR_WRITE(Y, y);
#if GROUP > 1
  __local float values[GROUP];
  __local int indices[GROUP];
#endif
  const int row = ROW;
  __global const S *p = x + (row / inner) * size * inner + row % inner;
  int found = size;  // no element yet
  float best = 0.0f;
  int r = LANE;
#if GROUP == 1
  if (inner == 1 && size >= 8) {  // each of eight columns first
    float8 most = LOAD8(p);
    int8 at = (int8)(0, 1, 2, 3, 4, 5, 6, 7);
    const int8 lanes = at;
    for (r = 8; r + 8 <= size; r += 8) {
      const float8 e = LOAD8(p + r);
      const int8 better = BETTER(e, most) | ((e != e) & (most == most));
      most = select(most, e, better);
      at = select(at, lanes + r, better);
    }
    float values[8] = {most.s0, most.s1, most.s2, most.s3, most.s4, most.s5, most.s6, most.s7};
    int indices[8] = {at.s0, at.s1, at.s2, at.s3, at.s4, at.s5, at.s6, at.s7};
    best = values[0], found = indices[0];
    for (int i = 1; i < 8; i++) {
      const int is_equal = values[i] == best || (values[i] != values[i] && best != best);
      if (IS_BETTER(values[i], best) || (is_equal && indices[i] < found))
        best = values[i], found = indices[i];
    }
  }
#endif
  for (; r < size; r += GROUP) {
    const float e = LOAD(p + r * inner);
    if (found == size || IS_BETTER(e, best)) best = e, found = r;
  }
#if GROUP > 1
  values[LANE] = best, indices[LANE] = found;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (LANE == 0) {
    for (int i = 1; i < min(GROUP, size); i++) {
      const float e = values[i];
      const int is_equal = e == best || (e != e && best != best);
      if (IS_BETTER(e, best) || (is_equal && indices[i] < found)) best = e, found = indices[i];
    }
    PUT(found);
  }
#else
  PUT(found);
#endif
}
