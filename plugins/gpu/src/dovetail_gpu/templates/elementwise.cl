// Real numbers, element by element: a work item computes RUN of them, eight at once if the rows of
// operands by channel are multiples of eight, and the rest one by one.

__kernel void stages(TENSOR_IN(S, x), TENSOR_OUT(S, y), int count, int channels STAGE_PARAMETERS) {
  TENSOR_READ(S, x);
  TENSOR_WRITE(S, y);
  STAGE_OPERANDS
  int at = get_global_id(0) * RUN;
  if (at >= count) return;
  const int end = min(at + RUN, count);
  int channel = at % channels;
#if WHOLE_VECTORS
  for (; at + 8 <= end; at += 8) {
    float8 v = LOAD8(x + at);
    STAGES(float8, LOAD8, v, at, channel);
    STORE8(v, y + at);
    channel = channel + 8 < channels ? channel + 8 : 0;
  }
#endif
  for (; at < end; at++) {
    float v = LOAD(x + at);
    STAGES(float, LOAD, v, at, channel);
    STORE(v, y + at);
    channel = channel + 1 < channels ? channel + 1 : 0;
  }
}
