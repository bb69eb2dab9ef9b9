// Softmax and LogSoftmax along the middle axis of (outer, size, inner). `sign` is that of beta: with
// a negative one the smallest element is subtracted. WRITE(V, LOAD_V, STORE_V, at, t) writes the
// result of `t`, beta times the distance to the extreme one.

#define EXTREME(V, LOAD_V, STORE_V, at, i) \
  { \
    const V e = sign * LOAD_V(x + (at)); \
    most_##V = select(most_##V, e, e > most_##V); \
  }
#define SUM(V, LOAD_V, STORE_V, at, i) \
  total_##V += exp(beta * (LOAD_V(x + (at)) - most));
#if LOGARITHM
#define RESULT(V, t) ((t) - log_total)
#else
#define RESULT(V, t) (exp(t) * factor)
#endif
#define WRITE(V, LOAD_V, STORE_V, at, i) \
  STORE_V(RESULT(V, beta * (LOAD_V(x + (at)) - most)), y + (at));

// inner is 1: adjacent elements
__kernel void rows(TENSOR_IN(S, x), TENSOR_OUT(S, y), int size, float beta,
                   float sign) {
  TENSOR_READ(S, x);
  TENSOR_WRITE(S, y);
  SHARED(float, shared);
  const int row = ROW;
  float8 most_float8 = (float8)(-INFINITY);
  float most_float = -INFINITY;
  EACH(EXTREME, row * size, 1, size, 0)
  float most = LARGER(float, FOLD(LARGER, most_float8), most_float);
  JOIN(float, most, shared, LARGER)
  most = sign * most;
  float8 total_float8 = (float8)(0.0f);
  float total_float = 0.0f;
  EACH(SUM, row * size, 1, size, 0)
  float total = FOLD(ADD, total_float8) + total_float;
  JOIN(float, total, shared, ADD)
  const float log_total = log(total), factor = 1.0f / total;
  EACH(WRITE, row * size, 1, size, 0)
}

// Others: eight columns at once, and the rest one by one.
#define COLUMNS(V, LOAD_V, STORE_V, shared, c) \
  { \
    const int first = outer * size * inner + (c); \
    V most = (V)(-INFINITY), total = (V)(0.0f); \
    for (int r = LANE; r < size; r += GROUP) { \
      const V e = sign * LOAD_V(x + first + r * inner); \
      most = select(most, e, e > most); \
    } \
    JOIN(V, most, shared, LARGER) \
    most = sign * most; \
    for (int r = LANE; r < size; r += GROUP) \
      total += exp(beta * (LOAD_V(x + first + r * inner) - most)); \
    JOIN(V, total, shared, ADD) \
    const V log_total = log(total), factor = 1.0f / total; \
    for (int r = LANE; r < size; r += GROUP) \
      WRITE(V, LOAD_V, STORE_V, first + r * inner, r) \
  }

__kernel void columns(TENSOR_IN(S, x), TENSOR_OUT(S, y), int size, int inner,
                      float beta, float sign) {
  TENSOR_READ(S, x);
  TENSOR_WRITE(S, y);
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
