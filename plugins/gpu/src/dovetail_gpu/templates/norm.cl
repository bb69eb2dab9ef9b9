// Normalization of rows: elements less their mean (CENTERED), divided by DIVISOR(total), where
// `total` is the sum of squares of what is divided and `inverse` is 1 / count; then changed by
// FACTORS(V, LOAD_V, v, i), where i is the index in gamma and offset, and by stages.

#define SUM(V, LOAD_V, STORE_V, at, i) total_##V += LOAD_V(x + (at));
#define SQUARE(V, LOAD_V, STORE_V, at, i) \
  { \
    const V e = LOAD_V(x + (at)) - mean; \
    total_##V += e * e; \
  }
#define WRITE(V, LOAD_V, STORE_V, at, i) \
  { \
    V v = (LOAD_V(x + (at)) - mean) / divisor; \
    FACTORS(V, LOAD_V, v, factor + (i)); \
    const int channel = (at) % channels; \
    STAGES(V, LOAD_V, v, (at), channel); \
    STORE_V(v, y + (at)); \
  }
#define TOTAL(BODY, total) \
  float total; \
  { \
    float8 total_float8 = (float8)(0.0f); \
    float total_float = 0.0f; \
    EACH(BODY, base, pieces, length, step) \
    total = FOLD(ADD, total_float8) + total_float; \
    JOIN(float, total, shared, ADD) \
  }

// A row is `pieces` of `length` adjacent elements, `step` apart; `side` rows are next to each other.
__kernel void rows(TENSOR_IN(S, x), TENSOR_OUT(S, y), TENSOR_IN(S, gamma), TENSOR_IN(S, offset),
                   int side, int pieces, int length, int step, int channels,
                   float inverse, float epsilon STAGE_PARAMETERS) {
  TENSOR_READ(S, x);
  TENSOR_WRITE(S, y);
  TENSOR_READ(S, gamma);
  TENSOR_READ(S, offset);
  STAGE_OPERANDS
  SHARED(float, shared);
  const int row = ROW;
  const int block = row / side, factor = (row - block * side) * length;
  const int base = block * side * pieces * length + factor;
  float mean = 0.0f, divisor = 1.0f;
#if CENTERED
  TOTAL(SUM, sum)
  mean = sum * inverse;
#endif
#if SCALED
  TOTAL(SQUARE, total)
  divisor = DIVISOR(float, total);
#endif
  EACH(WRITE, base, pieces, length, step)
}

// Rows along the middle axis of (outer, size, inner): eight at once, and the rest one by one.
#define COLUMNS(V, LOAD_V, STORE_V, shared, c) \
  { \
    const int first = outer * size * inner + (c), factor = (c) % channels; \
    V mean = (V)(0.0f), divisor = (V)(1.0f), total = (V)(0.0f); \
    if (CENTERED) { \
      for (int r = LANE; r < size; r += GROUP) mean += LOAD_V(x + first + r * inner); \
      JOIN(V, mean, shared, ADD) \
      mean *= inverse; \
    } \
    if (SCALED) { \
      for (int r = LANE; r < size; r += GROUP) { \
        const V e = LOAD_V(x + first + r * inner) - mean; \
        total += e * e; \
      } \
      JOIN(V, total, shared, ADD) \
      divisor = DIVISOR(V, total); \
    } \
    for (int r = LANE; r < size; r += GROUP) { \
      const int at = first + r * inner, channel = factor; \
      V v = (LOAD_V(x + at) - mean) / divisor; \
      FACTORS(V, LOAD_V, v, factor); \
      STAGES(V, LOAD_V, v, at, channel); \
      STORE_V(v, y + at); \
    } \
  }

__kernel void columns(TENSOR_IN(S, x), TENSOR_OUT(S, y), TENSOR_IN(S, gamma), TENSOR_IN(S, offset),
                      int size, int inner, int channels, float inverse,
                      float epsilon STAGE_PARAMETERS) {
  TENSOR_READ(S, x);
  TENSOR_WRITE(S, y);
  TENSOR_READ(S, gamma);
  TENSOR_READ(S, offset);
  STAGE_OPERANDS
  SHARED(float8, shared8);
  SHARED(float, shared);
  const int row = ROW;
  const int blocks = (inner + 7) / 8, outer = row / blocks, column = (row - outer * blocks) * 8;
  if (column + 8 <= inner) {
    COLUMNS(float8, LOAD8, STORE8, shared8, column)
  } else {
    for (int c = column; c < inner; c++) COLUMNS(float, LOAD, STORE, shared, c)
  }
}
