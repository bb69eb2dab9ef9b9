// Lrn along the last axis of (rows, channels): eight channels at once, and the rest one by one. POWER(V, v) is v
// to the power of -beta.

#define SQUARE(V, LOAD_V, c) \
  { \
    const V e = LOAD_V(line + (c)); \
    total += e * e; \
  }

__kernel void lrn(TENSOR_IN(S, x), TENSOR_OUT(S, y), int rows, int channels, int radius,
                  float alpha, float beta, float bias) {
  TENSOR_READ(S, x);
  TENSOR_WRITE(S, y);
  const int first = get_global_id(0) * 8, row = get_global_id(1);
  if (first >= channels || row >= rows) return;
  __global const S *line = x + row * channels;
  if (first >= radius && first + 8 + radius <= channels) {
    float8 total = (float8)(0.0f);
    for (int c = first - radius; c <= first + radius; c++) SQUARE(float8, LOAD8, c)
    STORE8(LOAD8(line + first) * POWER(float8, bias + alpha * total),
           y + row * channels + first);
    return;
  }
  for (int i = first; i < min(first + 8, channels); i++) {
    float total = 0.0f;
    const int until = min((long)i + radius, (long)channels - 1);
    for (int c = max(i - radius, 0); c <= until; c++) SQUARE(float, LOAD, c)
    STORE(LOAD(line + i) * POWER(float, bias + alpha * total), y + row * channels + i);
  }
}
