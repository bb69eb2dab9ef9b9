// Real numbers, element by element: eight at once, and the rest one by one.

__kernel void stages(TENSOR_IN(S, x), TENSOR_OUT(S, y), int count, int channels STAGE_PARAMETERS) {
  TENSOR_READ(S, x);
  TENSOR_WRITE(S, y);
  STAGE_OPERANDS
  const int at = get_global_id(0) * 8;
  if (at >= count) return;
#if WHOLE_VECTORS
  const int whole = 1;
#else
  const int whole = 0;
#endif
  if (whole && at + 8 <= count) {
    const int channel = at % channels;
    float8 v = LOAD8(x + at);
    STAGES(float8, LOAD8, v, at, channel);
    STORE8(v, y + at);
    return;
  }
  for (int i = at; i < min(at + 8, count); i++) {
    const int channel = i % channels;
    float v = LOAD(x + i);
    STAGES(float, LOAD, v, i, channel);
    STORE(v, y + i);
  }
}
